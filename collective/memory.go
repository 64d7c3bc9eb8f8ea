package collective

import (
	"runtime"
	"sync/atomic"
	"time"

	"trireme/trace"
)

const (
	spinCount    = 1500                 // reads of a clock before sleeping: some microseconds
	pollInterval = 5 * time.Millisecond // between checks for time-outs and failures
)

// Values of ChannelState.Clock within an operation.
const (
	posted = 1 + iota
	summed
	done
)

func (o *operation) post() {
	m, ch, slot := o.g.mem, o.channel(), int(o.h.Seq&1)
	s := &m.State(o.g.here, ch).Slots[slot]
	s.Header = o.h
	if o.contributes() {
		if inSlot(&o.h) {
			copy(s.Data[:], o.src)
		} else {
			o.exposed = m.Expose(ch, slot, o.src)
		}
	}
	o.tick(posted)
}

func (o *operation) tick(t uint32) {
	ch := o.channel()
	atomic.StoreUint32(&o.g.mem.State(o.g.here, ch).Clock, uint32(o.h.Seq)*4+t)
	o.g.mem.Wake(ch)
}

// throughMemory runs the operation with peers whose memory can be read.
func (o *operation) throughMemory() error {
	m, peers := o.g.mem, o.peers()
	if err := o.join(peers); err != nil {
		return err
	}
	if inSlot(&o.h) {
		// A slot is reused only after all ranks have posted the next operation, so reads need no
		// acknowledgment.
		o.small(o.posted)
		return nil
	}
	if o.contributes() {
		defer m.Unexpose(o.channel(), int(o.h.Seq&1))
	}
	return o.large(peers)
}

// join posts the operation, waits for the peers and compares their headers.
func (o *operation) join(peers []peer) error {
	o.post()
	if err := o.await(peers, posted); err != nil {
		return err
	}
	o.reachedByAll()
	for _, p := range peers {
		if h := &o.g.mem.State(p.rank, p.ch).Slots[o.h.Seq&1].Header; !o.h.matches(h) {
			return o.g.mismatchFailure(&o.h, o.g.local[p.rank], h)
		}
	}
	return nil
}

// reachedByAll records that all ranks have reached the operation.
func (o *operation) reachedByAll() {
	if o.g.trace != nil {
		o.ready = trace.Now()
	}
}

// posted returns the contribution in the slot of a group rank of this host, or of the peer.
func (o *operation) posted(rank int) []byte {
	ch := 0
	if o.ch > 0 {
		ch = o.peers()[0].ch
	}
	return o.g.mem.State(o.g.memoryRank(rank), ch).Slots[o.h.Seq&1].Data[:]
}

// shown returns the exposed bytes of the peers and of the caller, by rank in the Memory.
func (o *operation) shown(peers []peer) ([][]byte, error) {
	all := make([][]byte, len(o.g.local))
	if o.h.Kind != KindSend {
		for _, p := range peers {
			b, err := o.g.mem.Exposed(p.rank, p.ch, int(o.h.Seq&1))
			if err != nil {
				return nil, err
			}
			if len(b) != len(o.src) {
				return nil, errExpose
			}
			all[p.rank] = b
		}
	}
	if o.contributes() {
		all[o.g.here] = o.src // not a copy in the arena
	}
	return all, nil
}

func (o *operation) large(peers []peer) error {
	g := o.g
	n, me := len(g.ranks), g.me
	shown, err := o.shown(peers)
	if err != nil {
		return err
	}
	switch o.h.Kind {
	case KindAllGather:
		part := len(o.src)
		for i := range n {
			r := (me + i) % n
			move(o.dst[r*part:][:part], shown[r])
		}
	case KindReduceScatter:
		part := len(o.src) / n
		lo := o.chunkOf(me) * part
		for r := range shown {
			shown[r] = shown[r][lo:][:part]
		}
		reduce(o.dst, o.h.Out, shown, o.h.DType, Sum, o.accumulate)
	case KindAllReduce:
		if err := o.allReduce(peers, shown); err != nil {
			return err
		}
	case KindAllToAll:
		part := len(o.src) / n
		for i := range n {
			r := (me + i) % n
			copy(o.dst[r*part:][:part], shown[r][me*part:][:part])
		}
	case KindRecv:
		copy(o.dst, shown[peers[0].rank])
		o.tick(done)
		return nil // no peer reads the caller's memory
	}
	o.tick(done)
	return o.await(peers, done)
}

// allReduce sums the caller's part of the vector into its exposed memory, then copies the peers' parts.
// Until all have summed, only its owner reads a part, so the sum can replace it.
func (o *operation) allReduce(peers []peer, shown [][]byte) error {
	g := o.g
	n := len(g.ranks)
	part := func(r int, b []byte) []byte { return o.part(b, n, r) }
	srcs := make([][]byte, n)
	for r := range srcs {
		srcs[r] = part(g.me, shown[r])
	}
	sum := part(g.me, o.exposed)
	reduce(sum, o.h.Out, srcs, o.h.DType, o.h.Op, false)
	o.tick(summed)
	if err := o.await(peers, summed); err != nil {
		return err
	}
	for _, p := range peers {
		copy(part(p.rank, o.dst), part(p.rank, shown[p.rank]))
	}
	move(part(g.me, o.dst), sum)
	return nil
}

// await waits until all peers have reached a tick of the operation.
func (o *operation) await(peers []peer, tick uint32) error {
	want := uint32(o.h.Seq)*4 + tick
	for _, p := range peers {
		clock := &o.g.mem.State(p.rank, p.ch).Clock
		if !spin(clock, want) {
			if err := o.sleep(p, clock, want, peers, tick); err != nil {
				return err
			}
		}
	}
	return nil
}

func reached(clock *uint32, want uint32) bool { return int32(atomic.LoadUint32(clock)-want) >= 0 }

func spin(clock *uint32, want uint32) bool {
	for i := range spinCount {
		if reached(clock, want) {
			return true
		}
		if i&63 == 63 {
			runtime.Gosched()
		}
	}
	return false
}

func (o *operation) sleep(p peer, clock *uint32, want uint32, peers []peer, tick uint32) error {
	g := o.g
	if o.since.IsZero() {
		o.since = time.Now()
	}
	for {
		seen := atomic.LoadUint32(clock)
		if int32(seen-want) >= 0 {
			return nil
		}
		if f := g.w.t.Failure().Get(); f != nil {
			return f
		}
		if r := g.local[p.rank]; g.w.t.Closed(g.ranks[r]) && !reached(clock, want) {
			return g.closedFailure(r)
		}
		if o.ctx.Err() != nil {
			return o.interrupt()
		}
		if waited := time.Since(o.since); waited > g.w.cfg.Timeout {
			var late []int
			for _, q := range peers {
				if !reached(&g.mem.State(q.rank, q.ch).Clock, want) {
					late = append(late, g.local[q.rank])
				}
			}
			if g.msg != nil && o.ch == 0 && tick != posted { // that rank may wait for other hosts
				late, joined := o.late(late[0])
				return g.timeoutFailure(&o.h, waited, late, !joined)
			}
			return g.timeoutFailure(&o.h, waited, late, tick == posted)
		}
		g.mem.Wait(p.rank, p.ch, seen, pollInterval)
	}
}

// awaitProgress waits until a rank of this host has published count steps of a stripe.
func (o *operation) awaitProgress(rank, stripe int, count uint32) error {
	p := peer{rank, o.g.progressChannel(stripe)}
	clock := &o.g.mem.State(p.rank, p.ch).Clock
	if spin(clock, count) {
		return nil
	}
	o.since = time.Time{} // the time-out is for one step
	return o.sleep(p, clock, count, []peer{p}, done)
}
