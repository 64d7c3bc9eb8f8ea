package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// chunkBytes is the size of the chunks in which a sum is received and added.
const chunkBytes = 256 << 10

// messages runs one operation by message passing. It compares the headers of all peers before it reads
// their data.
type messages struct {
	*operation
	received []bool          // per rank: its header was read
	sentPart []chan struct{} // per rank, in an AllReduce: closed when its part of the caller's data is sent
}

// conn returns the index of the channel's connection.
func (o *messages) conn() int { return min(o.ch, 1) }

func (o *messages) transfer() error {
	o.since, o.received = time.Now(), make([]bool, len(o.g.ranks))
	stop := context.AfterFunc(o.ctx, func() { o.interrupt() }) // unblocks reads and writes
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

// small exchanges whole contributions. Writes do not block: contributions fit the socket buffers, and no
// rank is more than one operation ahead.
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
	contributions := make([][]byte, len(g.ranks))
	if o.contributes() {
		contributions[g.me] = bytes.Clone(o.src) // dst may be the same memory
	}
	for _, p := range peers {
		if err := o.header(p.rank); err != nil {
			return err
		}
	}
	for _, p := range peers {
		contributions[p.rank] = make([]byte, len(o.src))
		if err := o.read(p.rank, contributions[p.rank]); err != nil {
			return err
		}
	}
	o.operation.small(func(rank int) []byte { return contributions[rank] })
	return nil
}

// large sends to each peer from a goroutine while it receives.
func (o *messages) large(peers []peer) error {
	summed := make(chan struct{}) // closed when the caller's part of an AllReduce is summed
	sent := make(chan error, len(peers))
	o.sentPart = make([]chan struct{}, len(o.g.ranks))
	for _, p := range peers {
		o.sentPart[p.rank] = make(chan struct{})
		go func() { sent <- o.send(p.rank, summed) }()
	}
	err := o.receive(peers, summed)
	if err != nil {
		o.g.w.fail(asFailure(err, o.g.w.rank)) // ends pending sends
	}
	for range peers {
		if e := <-sent; err == nil {
			err = e
		}
	}
	return err
}

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
	close(o.sentPart[to])
	select {
	case <-summed:
		return o.write(to, o.part(o.dst, n, g.me))
	case <-g.w.t.Failure().Done():
		return g.w.t.Failure().Get()
	}
}

// receive reads all headers, then the data that the caller needs from each peer.
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
		for _, p := range peers { // into memory that was sent to the peer before
			select {
			case <-o.sentPart[p.rank]:
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

// sum reduces mine and the peers' data in rank order, chunk by chunk.
func (o *messages) sum(dst, mine []byte) error {
	g := o.g
	n, in, out := len(g.ranks), o.h.DType.Size(), o.h.Out.Size()
	count, step := len(mine)/in, chunkBytes/in
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

func (o *messages) header(from int) error {
	var b [HeaderSize]byte
	if err := o.read(from, b[:]); err != nil {
		return err
	}
	o.received[from] = true
	h, err := DecodeHeader(b[:])
	if err != nil {
		return &Failure{Kind: ErrMismatch, Rank: o.g.w.rank, Text: o.g.w.t.Describe(o.g.ranks[from]) + " sent a malformed header"}
	}
	if !o.h.matches(&h) {
		return o.g.mismatchFailure(&o.h, from, &h)
	}
	return nil
}

func (o *messages) read(from int, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := o.g.msg.Read(from, o.conn(), b); err != nil {
		return o.connFailure(from, err)
	}
	return nil
}

func (o *messages) write(to int, bufs ...[]byte) error {
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if err := o.g.msg.Write(to, o.conn(), b); err != nil {
			return o.connFailure(to, err)
		}
	}
	return nil
}

// causeWait is the time for which a failed connection waits for the cause, which arrives separately.
const causeWait = time.Second

func (o *messages) connFailure(rank int, err error) error {
	g := o.g
	if f := g.w.t.Failure().Get(); f != nil {
		return f
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return g.timeoutFailure(&o.h, time.Since(o.since), o.late(rank), !o.received[rank])
	}
	for end := time.Now().Add(causeWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f := g.w.t.Failure().Get(); f != nil {
			return f
		}
		if g.w.t.Closed(g.ranks[rank]) {
			return g.closedFailure(rank)
		}
	}
	return &Failure{Kind: ErrPeerLost, Rank: g.w.rank, Lost: []int{g.ranks[rank]}, Text: fmt.Sprintf("%s is lost: connection error: %v", g.w.t.Describe(g.ranks[rank]), err)}
}

// late returns the ranks that did not join, including rank.
func (o *messages) late(rank int) []int {
	late := []int{rank}
	for _, p := range o.peers() {
		if p.rank != rank && !o.received[rank] && !o.received[p.rank] && !o.g.msg.Arrived(p.rank, o.conn()) {
			late = append(late, p.rank)
		}
	}
	return late
}
