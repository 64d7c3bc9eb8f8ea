package parallel

import (
	"context"
	"fmt"

	"trireme/collective"
	"trireme/tensor"
	"trireme/trace"
)

// op is a collective, or a file read in the order of collectives. run blocks.
type op struct {
	kind trace.Kind
	axis string // the group's name; empty for a file
	unit string
	run  func(ctx context.Context) error
}

func allGather(g collective.Group, dst, src *tensor.Tensor, unit string) op {
	return op{trace.AllGather, g.Name(), unit, func(ctx context.Context) error { return g.AllGather(ctx, dst, src, unit) }}
}

func reduceScatter(g collective.Group, dst, src *tensor.Tensor, o collective.ReduceOptions, unit string) op {
	return op{trace.ReduceScatter, g.Name(), unit, func(ctx context.Context) error { return g.ReduceScatter(ctx, dst, src, o, unit) }}
}

func allReduce(g collective.Group, t *tensor.Tensor, by collective.Op, unit string) op {
	return op{trace.AllReduce, g.Name(), unit, func(ctx context.Context) error { return g.AllReduce(ctx, t, by, unit) }}
}

// commStream runs the collectives of all groups on one goroutine, in the order of issue, which is the same
// on every rank. After a failure all later operations fail with the same error, because the other ranks
// still wait in the failed one. With inline groups (collective.Group.Inline) operations run when issued.
type commStream struct {
	inline bool
	failed error        // the error of the first ticket that failed
	queue  chan *ticket // nil if inline
	ended  chan struct{}
}

type ticket struct {
	ctx  context.Context
	ops  []op
	err  error
	done chan struct{}
}

func newCommStream(inline bool) *commStream {
	c := &commStream{inline: inline}
	if inline {
		return c
	}
	c.queue, c.ended = make(chan *ticket, 64), make(chan struct{})
	go func() {
		defer close(c.ended)
		for t := range c.queue {
			c.run(t)
		}
	}()
	return c
}

// run runs a ticket's operations. A panic in one (a broken contract) becomes an error of the step.
func (c *commStream) run(t *ticket) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			t.err = fmt.Errorf("parallel: in a collective: %w", p)
		default:
			t.err = fmt.Errorf("parallel: in a collective: %v", p)
		}
		c.failed = t.err
		close(t.done)
	}()
	t.err = c.failed
	for i := 0; i < len(t.ops) && t.err == nil; i++ {
		t.err = t.ops[i].run(t.ctx)
	}
}

func (c *commStream) issue(ctx context.Context, ops ...op) *ticket {
	t := &ticket{ctx: ctx, ops: ops, done: make(chan struct{})}
	if c.inline {
		c.run(t)
	} else {
		c.queue <- t
	}
	return t
}

// wait blocks until the ticket's operations have finished or one has failed. They end with the context
// of issue.
func (t *ticket) wait() error {
	<-t.done
	return t.err
}

func (c *commStream) close() {
	if !c.inline {
		close(c.queue)
		<-c.ended
	}
}
