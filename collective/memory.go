package collective

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"
)

// errInterrupted says that the waiter's context ended and the operation goes on.
var errInterrupted = errors.New("interrupted")

const (
	spins = 1500                 // looks at a clock before sleeping: some microseconds
	nap   = 5 * time.Millisecond // between looks for time-outs and failures
)

// Ticks of a Cell's clock within an operation.
const (
	posted = 1 + iota
	half
	done
)

// post shows the operation to the others.
func (l *lane) post(w *work) {
	if l.g.mem == nil {
		return
	}
	m, slot := l.g.mem, int(w.h.Seq&1)
	s := &m.Cell(l.g.me, l.num).Slots[slot]
	s.Header = w.h
	if w.contributes(l.g.me) {
		if mailed(&w.h) {
			copy(s.Mail[:], w.src)
		} else {
			w.shown = m.Expose(l.num, slot, w.src)
		}
	}
	l.g.note(&w.h, Issued)
	l.tick(w, posted)
}

func (l *lane) tick(w *work, t uint32) {
	atomic.StoreUint32(&l.g.mem.Cell(l.g.me, l.num).Clock, uint32(w.h.Seq)*4+t)
	l.g.mem.Wake(l.num)
}

// memoryOp does one operation with peers whose memory can be read.
type memoryOp struct {
	l     *lane
	w     *work
	ctx   context.Context
	since time.Time
}

func (o *memoryOp) do() error {
	w, m := o.w, o.l.g.mem
	peers := o.l.peers()
	if err := o.await(o.ctx, peers, posted); err != nil {
		return err
	}
	for _, p := range peers {
		if h := &m.Cell(p.rank, p.lane).Slots[w.h.Seq&1].Header; !w.h.matches(h) {
			return o.l.g.mismatch(&w.h, p.rank, h)
		}
	}
	if mailed(&w.h) {
		// A slot is not written again before all have posted the next operation, so nobody needs
		// to be told that it was read.
		lane := peers[0].lane
		w.small(o.l.g, func(rank int) []byte {
			if rank == o.l.g.me {
				return m.Cell(rank, o.l.num).Slots[w.h.Seq&1].Mail[:]
			}
			return m.Cell(rank, lane).Slots[w.h.Seq&1].Mail[:]
		})
		return nil
	}
	if w.contributes(o.l.g.me) {
		defer m.Conceal(o.l.num, int(w.h.Seq&1))
	}
	return o.large(peers)
}

// large reads what the peers show.
func (o *memoryOp) large(peers []peer) error {
	w, g := o.w, o.l.g
	n, me := len(g.ranks), g.me
	shown := make([][]byte, n)
	if w.contributes(me) {
		shown[me] = w.shown
	}
	for _, p := range peers {
		if w.h.Kind == KindBroadcast && p.rank != int(w.h.Root) || w.h.Kind == KindSend {
			continue
		}
		b, err := g.mem.Exposed(p.rank, p.lane, int(w.h.Seq&1))
		if err != nil {
			return err
		}
		if len(b) != len(w.src) {
			return errExpose
		}
		shown[p.rank] = b
	}
	if w.contributes(me) {
		shown[me] = w.src // what is read here need not be read from a copy
	}
	wait := true
	switch w.h.Kind {
	case KindAllGather:
		part := len(w.src)
		for i := range n {
			r := (me + i) % n
			move(w.dst[r*part:][:part], shown[r])
		}
	case KindReduceScatter:
		part := len(w.src) / n
		lo := w.chunkOf(me) * part
		for r := range shown {
			shown[r] = shown[r][lo:][:part]
		}
		reduce(w.dst, w.h.Out, shown, w.h.DType, Sum, w.accumulate)
	case KindAllReduce:
		if err := o.allReduce(peers, shown); err != nil {
			return err
		}
	case KindBroadcast:
		wait = me == int(w.h.Root)
		if !wait {
			copy(w.dst, shown[w.h.Root])
		}
	case KindAllToAll:
		part := len(w.src) / n
		for i := range n {
			r := (me + i) % n
			copy(w.dst[r*part:][:part], shown[r][me*part:][:part])
		}
	case KindRecv:
		wait = false
		copy(w.dst, shown[peers[0].rank])
	}
	o.l.tick(w, done)
	if !wait {
		return nil // nobody reads the caller's memory
	}
	return o.await(context.Background(), peers, done)
}

// allReduce sums the caller's part of the vector where peers can see it, then copies theirs.
// A part is read by its owner only until all have summed, so the sum may lie in its place.
func (o *memoryOp) allReduce(peers []peer, shown [][]byte) error {
	w, g := o.w, o.l.g
	n := len(g.ranks)
	part := func(r int, b []byte) []byte { return w.part(b, n, r) }
	srcs := make([][]byte, n)
	for r := range srcs {
		srcs[r] = part(g.me, shown[r])
	}
	sum := part(g.me, w.shown)
	reduce(sum, w.h.Out, srcs, w.h.DType, w.h.Op, false)
	o.l.tick(w, half)
	if err := o.await(context.Background(), peers, half); err != nil {
		return err
	}
	for _, p := range peers {
		copy(part(p.rank, w.dst), part(p.rank, shown[p.rank]))
	}
	move(part(g.me, w.dst), sum)
	return nil
}

// await returns when all peers have reached a tick of the operation, or when they never
// will. It may be begun again after an interruption.
func (o *memoryOp) await(ctx context.Context, peers []peer, tick uint32) error {
	want := uint32(o.w.h.Seq)*4 + tick
	for _, p := range peers {
		clock := &o.l.g.mem.Cell(p.rank, p.lane).Clock
		if !spin(clock, want) {
			if err := o.sleep(ctx, p, clock, want, peers, tick); err != nil {
				return err
			}
		}
	}
	return nil
}

func reached(clock *uint32, want uint32) bool { return int32(atomic.LoadUint32(clock)-want) >= 0 }

func spin(clock *uint32, want uint32) bool {
	for i := range spins {
		if reached(clock, want) {
			return true
		}
		if i&63 == 63 {
			runtime.Gosched()
		}
	}
	return false
}

func (o *memoryOp) sleep(ctx context.Context, p peer, clock *uint32, want uint32, peers []peer, tick uint32) error {
	g := o.l.g
	if o.since.IsZero() {
		o.since = time.Now()
	}
	for {
		seen := atomic.LoadUint32(clock)
		if int32(seen-want) >= 0 {
			return nil
		}
		if f := g.w.t.Fault().Failure(); f != nil {
			return f
		}
		if g.w.t.Gone(g.ranks[p.rank]) && !reached(clock, want) {
			return g.left(p.rank)
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		if waited := time.Since(o.since); waited > g.w.cfg.Timeout {
			var late []int
			for _, q := range peers {
				if !reached(&g.mem.Cell(q.rank, q.lane).Clock, want) {
					late = append(late, q.rank)
				}
			}
			return g.timeout(&o.w.h, waited, late, tick == posted)
		}
		g.mem.Sleep(p.rank, p.lane, seen, nap)
	}
}
