package collective

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

// piece is how much of a sum is received before it is added.
const piece = 256 << 10

// messageOp does one operation with peers that exchange bytes. Headers of all peers are
// compared before any of their data is taken.
type messageOp struct {
	l     *lane
	w     *work
	since time.Time
	heard []bool          // by rank: the header came
	given []chan struct{} // by rank, in an AllReduce: closed when it has the caller's part for it
}

// line is the line of a Messages that the lane uses.
func (l *lane) line() int { return min(l.num, 1) }

func (o *messageOp) do() error {
	o.since, o.heard = time.Now(), make([]bool, len(o.l.g.ranks))
	peers := o.l.peers()
	switch {
	case o.w.h.Kind == KindSend:
		return o.write(peers[0].rank, o.w.h.Encode(nil), o.w.src)
	case o.w.h.Kind == KindRecv:
		if err := o.header(peers[0].rank); err != nil {
			return err
		}
		return o.read(peers[0].rank, o.w.dst)
	case mailed(&o.w.h):
		return o.small(peers)
	}
	return o.large(peers)
}

// small exchanges whole contributions. They fit the system's buffers, since nobody is more
// than one operation ahead: writing does not block.
func (o *messageOp) small(peers []peer) error {
	w, g := o.w, o.l.g
	frame := w.h.Encode(make([]byte, 0, HeaderSize+len(w.src)))
	if w.contributes(g.me) {
		frame = append(frame, w.src...)
	}
	for _, p := range peers {
		if err := o.write(p.rank, frame); err != nil {
			return err
		}
	}
	mails := make([][]byte, len(g.ranks))
	if w.contributes(g.me) {
		mails[g.me] = bytes.Clone(w.src) // dst may be the same memory
	}
	for _, p := range peers {
		if err := o.header(p.rank); err != nil {
			return err
		}
	}
	for _, p := range peers {
		if w.contributes(p.rank) {
			mails[p.rank] = make([]byte, len(w.src))
			if err := o.read(p.rank, mails[p.rank]); err != nil {
				return err
			}
		}
	}
	w.small(g, func(rank int) []byte { return mails[rank] })
	return nil
}

// large sends to each peer from a goroutine of its own while it receives.
func (o *messageOp) large(peers []peer) error {
	summed := make(chan struct{}) // closed when the caller's part of an AllReduce is there
	sent := make(chan error, len(peers))
	o.given = make([]chan struct{}, len(o.l.g.ranks))
	for _, p := range peers {
		o.given[p.rank] = make(chan struct{})
		go func() { sent <- o.send(p.rank, summed) }()
	}
	err := o.receive(peers, summed)
	if err != nil {
		o.l.g.w.fail(asFailure(err, o.l.g.w.rank)) // ends what is being sent
	}
	for range peers {
		if e := <-sent; err == nil {
			err = e
		}
	}
	return err
}

// send writes what one peer needs.
func (o *messageOp) send(to int, summed <-chan struct{}) error {
	w, g := o.w, o.l.g
	n := len(g.ranks)
	var b []byte
	switch w.h.Kind {
	case KindAllGather:
		b = w.src
	case KindReduceScatter:
		part := len(w.src) / n
		b = w.src[w.chunkOf(to)*part:][:part]
	case KindAllReduce:
		b = w.part(w.src, n, to)
	case KindBroadcast:
		if w.contributes(g.me) {
			b = w.src
		}
	case KindAllToAll:
		part := len(w.src) / n
		b = w.src[to*part:][:part]
	}
	if err := o.write(to, w.h.Encode(nil), b); err != nil {
		return err
	}
	if w.h.Kind != KindAllReduce {
		return nil
	}
	close(o.given[to])
	select {
	case <-summed:
		return o.write(to, w.part(w.dst, n, g.me))
	case <-g.w.t.Fault().Done():
		return g.w.t.Fault().Failure()
	}
}

// receive takes the headers, then what the caller needs of each peer.
func (o *messageOp) receive(peers []peer, summed chan<- struct{}) error {
	w, g := o.w, o.l.g
	for _, p := range peers {
		if err := o.header(p.rank); err != nil {
			return err
		}
	}
	n, me := len(g.ranks), g.me
	part := len(w.dst) / n
	switch w.h.Kind {
	case KindAllGather:
		move(w.dst[me*part:][:part], w.src)
		for _, p := range peers {
			if err := o.read(p.rank, w.dst[p.rank*part:][:part]); err != nil {
				return err
			}
		}
	case KindReduceScatter:
		part := len(w.src) / n
		return o.sum(w.dst, w.src[w.chunkOf(me)*part:][:part])
	case KindAllReduce:
		mine := w.part(w.dst, n, me)
		if err := o.sum(mine, mine); err != nil {
			return err
		}
		close(summed)
		for _, p := range peers { // into what was sent to the peer before
			select {
			case <-o.given[p.rank]:
			case <-g.w.t.Fault().Done():
				return g.w.t.Fault().Failure()
			}
			if err := o.read(p.rank, w.part(w.dst, n, p.rank)); err != nil {
				return err
			}
		}
	case KindBroadcast:
		if !w.contributes(me) {
			return o.read(int(w.h.Root), w.dst)
		}
	case KindAllToAll:
		copy(w.dst[me*part:][:part], w.src[me*part:][:part])
		for _, p := range peers {
			if err := o.read(p.rank, w.dst[p.rank*part:][:part]); err != nil {
				return err
			}
		}
	}
	return nil
}

// sum combines what each peer sends with mine, piece by piece, in the order of ranks.
func (o *messageOp) sum(dst, mine []byte) error {
	w, g := o.w, o.l.g
	n, in, out := len(g.ranks), w.h.DType.Size(), w.h.Out.Size()
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
		reduce(dst[lo*out:hi*out], w.h.Out, srcs, w.h.DType, w.h.Op, w.accumulate)
	}
	return nil
}

// header receives a peer's header and compares it.
func (o *messageOp) header(from int) error {
	var b [HeaderSize]byte
	if err := o.read(from, b[:]); err != nil {
		return err
	}
	o.heard[from] = true
	h, err := DecodeHeader(b[:])
	if err != nil {
		return &Failure{Kind: ErrMismatch, Rank: o.l.g.w.rank, Text: fmt.Sprintf("rank %d sent something that is no header", o.l.g.ranks[from])}
	}
	if !o.w.h.matches(&h) {
		return o.l.g.mismatch(&o.w.h, from, &h)
	}
	return nil
}

func (o *messageOp) read(from int, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := o.l.g.msg.Read(from, o.l.line(), b); err != nil {
		return o.broken(from, err)
	}
	return nil
}

func (o *messageOp) write(to int, bufs ...[]byte) error {
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if err := o.l.g.msg.Write(to, o.l.line(), b); err != nil {
			return o.broken(to, err)
		}
	}
	return nil
}

// settle is how long a broken connection waits for the reason that the peer, or the end of
// its process, gives elsewhere.
const settle = time.Second

// broken says why a peer could not be reached.
func (o *messageOp) broken(rank int, err error) error {
	g := o.l.g
	if f := g.w.t.Fault().Failure(); f != nil {
		return f
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return g.timeout(&o.w.h, time.Since(o.since), o.late(rank), !o.heard[rank])
	}
	for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f := g.w.t.Fault().Failure(); f != nil {
			return f
		}
		if g.w.t.Gone(g.ranks[rank]) {
			return g.left(rank)
		}
	}
	return &Failure{Kind: ErrPeerLost, Rank: g.w.rank, Lost: []int{g.ranks[rank]}, Text: fmt.Sprintf("the connection to rank %d broke: %v", g.ranks[rank], err)}
}

// late are the ranks that did not arrive, rank among them.
func (o *messageOp) late(rank int) []int {
	late := []int{rank}
	for _, p := range o.l.peers() {
		if p.rank != rank && !o.heard[rank] && !o.heard[p.rank] && !o.l.g.msg.Arrived(p.rank, o.l.line()) {
			late = append(late, p.rank)
		}
	}
	return late
}
