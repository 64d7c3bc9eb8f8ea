package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// piece is how much of a sum is received before it is added.
const piece = 256 << 10

// messages does one operation with peers that exchange bytes. Headers of all peers are
// compared before any of their data is taken.
type messages struct {
	*operation
	heard []bool          // by rank: the header came
	given []chan struct{} // by rank, in an AllReduce: closed when it has the caller's part for it
}

// line is the line of a Messages that the channel uses.
func (o *messages) line() int { return min(o.ch, 1) }

func (o *messages) transfer() error {
	o.since, o.heard = time.Now(), make([]bool, len(o.g.ranks))
	stop := context.AfterFunc(o.ctx, func() { o.interrupt() }) // which ends reads and writes
	err := o.exchange()
	if !stop() && err == nil {
		return o.interrupt()
	}
	return err
}

func (o *messages) exchange() error {
	peers := o.peers()
	switch {
	case o.h.Kind == KindSend:
		return o.write(peers[0].rank, o.h.Encode(nil), o.src)
	case o.h.Kind == KindRecv:
		if err := o.header(peers[0].rank); err != nil {
			return err
		}
		return o.read(peers[0].rank, o.dst)
	case inSlot(&o.h):
		return o.small(peers)
	}
	return o.large(peers)
}

// small exchanges whole contributions. They fit the system's buffers, since nobody is more
// than one operation ahead: writing does not block.
func (o *messages) small(peers []peer) error {
	g := o.g
	frame := o.h.Encode(make([]byte, 0, HeaderSize+len(o.src)))
	if o.contributes() {
		frame = append(frame, o.src...)
	}
	for _, p := range peers {
		if err := o.write(p.rank, frame); err != nil {
			return err
		}
	}
	mails := make([][]byte, len(g.ranks))
	if o.contributes() {
		mails[g.me] = bytes.Clone(o.src) // dst may be the same memory
	}
	for _, p := range peers {
		if err := o.header(p.rank); err != nil {
			return err
		}
	}
	for _, p := range peers {
		mails[p.rank] = make([]byte, len(o.src))
		if err := o.read(p.rank, mails[p.rank]); err != nil {
			return err
		}
	}
	o.operation.small(func(rank int) []byte { return mails[rank] })
	return nil
}

// large sends to each peer from a goroutine of its own while it receives.
func (o *messages) large(peers []peer) error {
	summed := make(chan struct{}) // closed when the caller's part of an AllReduce is there
	sent := make(chan error, len(peers))
	o.given = make([]chan struct{}, len(o.g.ranks))
	for _, p := range peers {
		o.given[p.rank] = make(chan struct{})
		go func() { sent <- o.send(p.rank, summed) }()
	}
	err := o.receive(peers, summed)
	if err != nil {
		o.g.w.fail(asFailure(err, o.g.w.rank)) // ends what is being sent
	}
	for range peers {
		if e := <-sent; err == nil {
			err = e
		}
	}
	return err
}

// send writes what one peer needs.
func (o *messages) send(to int, summed <-chan struct{}) error {
	g := o.g
	n := len(g.ranks)
	var b []byte
	switch o.h.Kind {
	case KindAllGather:
		b = o.src
	case KindReduceScatter:
		part := len(o.src) / n
		b = o.src[o.chunkOf(to)*part:][:part]
	case KindAllReduce:
		b = o.part(o.src, n, to)
	case KindAllToAll:
		part := len(o.src) / n
		b = o.src[to*part:][:part]
	}
	if err := o.write(to, o.h.Encode(nil), b); err != nil {
		return err
	}
	if o.h.Kind != KindAllReduce {
		return nil
	}
	close(o.given[to])
	select {
	case <-summed:
		return o.write(to, o.part(o.dst, n, g.me))
	case <-g.w.t.Failure().Done():
		return g.w.t.Failure().Get()
	}
}

// receive takes the headers, then what the caller needs of each peer.
func (o *messages) receive(peers []peer, summed chan<- struct{}) error {
	g := o.g
	for _, p := range peers {
		if err := o.header(p.rank); err != nil {
			return err
		}
	}
	n, me := len(g.ranks), g.me
	part := len(o.dst) / n
	switch o.h.Kind {
	case KindAllGather:
		move(o.dst[me*part:][:part], o.src)
		for _, p := range peers {
			if err := o.read(p.rank, o.dst[p.rank*part:][:part]); err != nil {
				return err
			}
		}
	case KindReduceScatter:
		part := len(o.src) / n
		return o.sum(o.dst, o.src[o.chunkOf(me)*part:][:part])
	case KindAllReduce:
		mine := o.part(o.dst, n, me)
		if err := o.sum(mine, mine); err != nil {
			return err
		}
		close(summed)
		for _, p := range peers { // into what was sent to the peer before
			select {
			case <-o.given[p.rank]:
			case <-g.w.t.Failure().Done():
				return g.w.t.Failure().Get()
			}
			if err := o.read(p.rank, o.part(o.dst, n, p.rank)); err != nil {
				return err
			}
		}
	case KindAllToAll:
		copy(o.dst[me*part:][:part], o.src[me*part:][:part])
		for _, p := range peers {
			if err := o.read(p.rank, o.dst[p.rank*part:][:part]); err != nil {
				return err
			}
		}
	}
	return nil
}

// sum combines what each peer sends with mine, piece by piece, in the order of ranks.
func (o *messages) sum(dst, mine []byte) error {
	g := o.g
	n, in, out := len(g.ranks), o.h.DType.Size(), o.h.Out.Size()
	count, step := len(mine)/in, piece/in
	hold := make([]byte, (n-1)*min(step, count)*in)
	srcs := make([][]byte, n)
	for lo := 0; lo < count; lo += step {
		hi := min(lo+step, count)
		rest := hold
		for r := range srcs {
			if r == g.me {
				srcs[r] = mine[lo*in : hi*in]
				continue
			}
			srcs[r], rest = rest[:(hi-lo)*in], rest[(hi-lo)*in:]
			if err := o.read(r, srcs[r]); err != nil {
				return err
			}
		}
		reduce(dst[lo*out:hi*out], o.h.Out, srcs, o.h.DType, o.h.Op, o.accumulate)
	}
	return nil
}

// header receives a peer's header and compares it.
func (o *messages) header(from int) error {
	var b [HeaderSize]byte
	if err := o.read(from, b[:]); err != nil {
		return err
	}
	o.heard[from] = true
	h, err := DecodeHeader(b[:])
	if err != nil {
		return &Failure{Kind: ErrMismatch, Rank: o.g.w.rank, Text: fmt.Sprintf("rank %d sent something that is no header", o.g.ranks[from])}
	}
	if !o.h.matches(&h) {
		return o.g.mismatch(&o.h, from, &h)
	}
	return nil
}

func (o *messages) read(from int, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := o.g.msg.Read(from, o.line(), b); err != nil {
		return o.broken(from, err)
	}
	return nil
}

func (o *messages) write(to int, bufs ...[]byte) error {
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if err := o.g.msg.Write(to, o.line(), b); err != nil {
			return o.broken(to, err)
		}
	}
	return nil
}

// settle is how long a broken connection waits for the reason that the peer, or the end of
// its process, gives elsewhere.
const settle = time.Second

// broken says why a peer could not be reached.
func (o *messages) broken(rank int, err error) error {
	g := o.g
	if f := g.w.t.Failure().Get(); f != nil {
		return f
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return g.timeout(&o.h, time.Since(o.since), o.late(rank), !o.heard[rank])
	}
	for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f := g.w.t.Failure().Get(); f != nil {
			return f
		}
		if g.w.t.Closed(g.ranks[rank]) {
			return g.left(rank)
		}
	}
	return &Failure{Kind: ErrPeerLost, Rank: g.w.rank, Lost: []int{g.ranks[rank]}, Text: fmt.Sprintf("the connection to rank %d broke: %v", g.ranks[rank], err)}
}

// late are the ranks that did not arrive, rank among them.
func (o *messages) late(rank int) []int {
	late := []int{rank}
	for _, p := range o.peers() {
		if p.rank != rank && !o.heard[rank] && !o.heard[p.rank] && !o.g.msg.Arrived(p.rank, o.line()) {
			late = append(late, p.rank)
		}
	}
	return late
}
