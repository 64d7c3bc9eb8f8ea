package collective

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"trireme/tensor"
)

// channel is a sequence of operations: a group's, or the messages to or from one peer.
type channel struct {
	busy atomic.Bool // an operation is running
	seq  uint64      // of the next operation
}

type operation struct {
	g   *group
	ctx context.Context
	ch  int // in group.channels
	h   Header
	tag string

	peer int // of a Send or Recv

	dst, src   []byte
	chunks     []int
	accumulate bool
	exposed    []byte    // src as exposed to the peers, if large
	since      time.Time // start of waiting
	ready      int64     // when the last rank had reached the operation (trace.Now); 0: unknown
}

func (g *group) operation(ctx context.Context, ch int, k Kind, tag string, dst, src *tensor.Tensor) *operation {
	o := &operation{g: g, ctx: ctx, ch: ch, h: newHeader(k, tag), tag: tag}
	o.h.Group = g.key
	if src != nil {
		o.src, o.h.DType, o.h.Count = tensor.HostBytes(src), src.DType(), int64(src.Elems())
	}
	if dst != nil {
		o.dst, o.h.Out = tensor.HostBytes(dst), dst.DType()
	}
	return o
}

func (o *operation) run() error {
	g := o.g
	c := &g.channels[o.ch]
	g.check(c.busy.CompareAndSwap(false, true), o.h.Kind, o.h.Tag(), "another goroutine is running an operation of this group")
	defer c.busy.Store(false)
	o.h.Seq = c.seq
	c.seq++
	if f := g.w.t.Failure().Get(); f != nil {
		return o.failed(f)
	}
	if len(g.ranks) == 1 && o.ch == 0 {
		o.single()
		return nil
	}
	if !g.w.acquire() {
		return o.failed(&Failure{Kind: ErrClosed, Rank: g.w.rank, Text: "the world is closed"})
	}
	defer g.w.release()
	if err := o.transfer(); err != nil {
		g.w.fail(asFailure(err, g.w.rank))
		return o.failed(g.w.t.Failure().Get())
	}
	return nil
}

// transfer moves the data.
func (o *operation) transfer() error {
	recorded, span := o.record(), o.span()
	err := guarded(func() error {
		if g := o.g; g.msg == nil || o.ch > 0 && slices.Contains(g.local, o.peer) {
			return o.throughMemory()
		}
		return newMessages(o).transfer()
	})
	if err == nil {
		recorded.End()
		span.Ready = o.ready
		o.g.trace.End(span)
	}
	return err
}

// guarded returns f's error, or its panic as an error, so that no peer hangs.
func guarded(f func() error) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("%v\n%s", e, debug.Stack())
		}
	}()
	return f()
}

// failed returns the operation's error after the world failed with f.
func (o *operation) failed(f *Failure) error {
	switch {
	case o.ctx.Err() != nil && f.cause != nil && errors.Is(f.cause, o.ctx.Err()):
		return f.cause // this rank's own context
	case f.Kind == ErrMismatch, f.Kind == ErrTimeout: // these texts name the operation
		return fmt.Errorf("collective: %w", f)
	}
	return fmt.Errorf("collective: group %s: %v: %w", o.g.name, &o.h, f)
}

// interrupt takes this rank out of the world, after its context ended during an operation.
func (o *operation) interrupt() *Failure {
	o.g.w.interrupt(asFailure(fmt.Errorf("collective: group %s: %v: %w", o.g.name, &o.h, o.ctx.Err()), o.g.w.rank))
	return o.g.w.t.Failure().Get()
}
