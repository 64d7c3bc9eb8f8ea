package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// chunkBytes is the limit of a message of a large operation. Smaller ones overlap better, larger ones cost
// less.
const chunkBytes = 256 << 10

// messages runs one operation that involves ranks of other hosts. It compares headers before data that
// other ranks sent is written to the caller's tensors.
type messages struct {
	*operation
	began   time.Time
	stripes int
	headed  []atomic.Bool // per group rank: its header was read
	heads   atomic.Int32  // number of them
}

func newMessages(o *operation) *messages {
	return &messages{operation: o, began: time.Now(), stripes: o.g.msg.Stripes(), headed: make([]atomic.Bool, len(o.g.ranks))}
}

func (o *messages) transfer() error {
	if o.ch == 0 {
		o.g.msg.Reached(o.h.Seq)
	}
	stop := context.AfterFunc(o.ctx, func() { o.interrupt() }) // unblocks reads and writes
	err := o.exchange()
	if !stop() && err == nil {
		return o.interrupt()
	}
	return err
}

func (o *messages) exchange() error {
	g := o.g
	memory := len(g.hosts) < len(g.ranks) // some ranks share it
	switch {
	case o.h.Kind == KindSend:
		return o.send()
	case o.h.Kind == KindRecv:
		return o.recv()
	case inSlot(&o.h) && (memory || len(g.hosts) > g.w.cfg.MaxDirect):
		return o.tree()
	case inSlot(&o.h):
		return o.smallDirect()
	case o.h.Kind == KindAllToAll:
		return o.throughHosts((*hosts).allToAll)
	case !memory && len(g.hosts) <= g.w.cfg.MaxDirect:
		return o.largeDirect()
	case o.h.Kind == KindAllGather:
		return o.throughHosts((*hosts).allGather)
	case o.h.Kind == KindReduceScatter:
		return o.throughHosts((*hosts).reduceScatter)
	}
	return o.throughHosts((*hosts).allReduce)
}

// The phases of an operation, in which messages on a stream could be confused.
const (
	phaseHeader = iota
	phaseData
	phaseSum    // a running sum
	phaseResult // of a sum
	phaseFirst  // the first term of a sum
)

// label identifies a message: phase, operation, types, reduction, sequence number, group, part and chunk.
// Headers have group and phase only, so that ranks which called different operations can compare them.
type label [32]byte

func (o *messages) label(phase byte) *label {
	var l label
	l[0] = phase
	if phase != phaseHeader {
		h := &o.h
		k := h.Kind
		if k == KindRecv {
			k = KindSend
		}
		l[1], l[2], l[3], l[4], l[5] = byte(k), byte(h.Op), byte(h.DType), byte(h.Out), h.Flags
		binary.LittleEndian.PutUint64(l[8:], h.Seq)
	}
	binary.LittleEndian.PutUint64(l[16:], o.g.key)
	return &l
}

// at returns the label of a chunk.
func (l *label) at(part, chunk int) []byte {
	binary.LittleEndian.PutUint32(l[24:], uint32(part))
	binary.LittleEndian.PutUint32(l[28:], uint32(chunk))
	return l[:]
}

// The streams of a stripe; see Messages.
func (o *messages) firstTerms(stripe int) int { return o.stripes + stripe }
func (o *messages) pairs(stripe int) int      { return 2*o.stripes + stripe }

// together runs functions concurrently, the first in the calling goroutine. The first error fails the
// world, which ends the others.
func (o *messages) together(fs ...func() error) error {
	errs := make(chan error, len(fs))
	run := func(f func() error) {
		err := guarded(f)
		if err != nil {
			o.g.w.fail(asFailure(err, o.g.w.rank))
		}
		errs <- err
	}
	for _, f := range fs[1:] {
		go run(f)
	}
	run(fs[0])
	var first error
	for range fs {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// striped returns a function per stripe that runs f.
func (o *messages) striped(f func(stripe int) error) (fs []func() error) {
	for s := range o.stripes {
		fs = append(fs, func() error { return f(s) })
	}
	return fs
}

// steps counts steps of a goroutine that another waits for.
type steps chan struct{}

// newSteps returns steps per stripe, of up to n each.
func (o *messages) newSteps(n int) []steps {
	s := make([]steps, o.stripes)
	for i := range s {
		s[i] = make(steps, n)
	}
	return s
}

func (s steps) done() { s <- struct{}{} }

// awaitStep waits for the next step.
func (o *messages) awaitStep(s steps) error {
	select {
	case <-s:
		return nil
	case <-o.g.w.t.Failure().Done():
		return o.g.w.t.Failure().Get()
	}
}

func (o *messages) send() error {
	head := o.h.Encode(make([]byte, 0, HeaderSize+SlotDataSize))
	if inSlot(&o.h) {
		return o.write(o.peer, o.pairs(0), o.label(phaseHeader).at(0, 0), append(head, o.src...))
	}
	if err := o.write(o.peer, o.pairs(0), o.label(phaseHeader).at(0, 0), head); err != nil {
		return err
	}
	c := chunksOf(len(o.src))
	return o.together(o.striped(func(s int) error {
		l := o.label(phaseData)
		for i := s; i < c.count; i += o.stripes {
			if err := o.write(o.peer, o.pairs(s), l.at(0, i), c.of(o.src, i)); err != nil {
				return err
			}
		}
		return nil
	})...)
}

func (o *messages) recv() error {
	b, err := o.header(o.peer, o.pairs(0))
	if err != nil {
		return err
	}
	if inSlot(&o.h) {
		return o.take(o.peer, o.dst, b)
	}
	c := chunksOf(len(o.dst))
	return o.together(o.striped(func(s int) error {
		l := o.label(phaseData)
		for i := s; i < c.count; i += o.stripes {
			if err := o.read(o.peer, o.pairs(s), l.at(0, i), c.of(o.dst, i)); err != nil {
				return err
			}
		}
		return nil
	})...)
}

// take copies data that came with a header.
func (o *messages) take(from int, dst, b []byte) error {
	if len(b) != len(dst) {
		return o.malformed(from)
	}
	copy(dst, b)
	return nil
}

func (o *messages) malformed(from int) error {
	return &Failure{Kind: ErrMismatch, Rank: o.g.w.rank, Text: o.g.w.t.Describe(o.g.ranks[from]) + " sent a malformed message"}
}

// sendHeader sends the header, with data that fits beside it.
func (o *messages) sendHeader(to int, data []byte) error {
	return o.write(to, 0, o.label(phaseHeader).at(0, 0), append(o.h.Encode(make([]byte, 0, HeaderSize+len(data))), data...))
}

// header reads a header, compares it with the caller's, and returns the data that came with it.
func (o *messages) header(from, stream int) ([]byte, error) {
	b := make([]byte, HeaderSize+SlotDataSize)
	n, err := o.g.msg.Read(from, stream, o.label(phaseHeader).at(0, 0), b)
	if err != nil {
		return nil, o.connFailure(from, err)
	}
	o.headed[from].Store(true)
	if n := int(o.heads.Add(1)); n == len(o.headed)-1 || o.ch > 0 {
		o.reachedByAll()
	}
	h, err := DecodeHeader(b[:min(n, HeaderSize)])
	if err != nil {
		return nil, o.malformed(from)
	}
	if !o.h.matches(&h) {
		return nil, o.g.mismatchFailure(&o.h, from, &h)
	}
	return b[HeaderSize:n], nil
}

// read reads a message of len(b) bytes.
func (o *messages) read(from, stream int, label, b []byte) error {
	n, err := o.g.msg.Read(from, stream, label, b)
	if err != nil {
		return o.connFailure(from, err)
	}
	if n != len(b) {
		return o.malformed(from)
	}
	return nil
}

func (o *messages) write(to, stream int, label, b []byte) error {
	if err := o.g.msg.Write(to, stream, label, b); err != nil {
		return o.connFailure(to, err)
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
		late, joined := []int{rank}, o.headed[rank].Load()
		if o.ch == 0 {
			late, joined = o.late(rank)
		}
		return g.timeoutFailure(&o.h, time.Since(o.began), late, !joined)
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

// pieces divides a vector into chunks of whole elements.
type pieces struct {
	size  int // of a chunk, in bytes
	count int
	total int // bytes of the vector
}

// chunksOf divides a vector of total bytes into chunks, at least a few if it is not short.
func chunksOf(total int) pieces {
	size := min(max(total/8, 32<<10), chunkBytes) &^ 63
	return pieces{size, (total + size - 1) / size, total}
}

// of returns chunk i of b, which has the vector's length; nothing after the last.
func (c pieces) of(b []byte, i int) []byte {
	return b[min(i*c.size, c.total):min((i+1)*c.size, c.total)]
}
