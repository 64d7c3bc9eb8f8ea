package parallel

import (
	"context"
	"fmt"
)

// op is a collective, or a read of a file in the order of collectives. It returns when it is
// finished, has failed, or ctx ends.
type op = func(ctx context.Context) error

// commStream is the engine's one communication goroutine. Collectives of all groups run on it in
// the order in which the engine issues them, which is the same on every rank, so that an
// operation of one group may depend on an earlier one of another. After one has failed all
// that follow fail with it: the other ranks wait for the one that is missing.
//
// Where groups record or count operations (collective.Group.Inline) there is no goroutine: an
// operation runs when it is issued, so that its place among the operations of the backend is
// the program's.
type commStream struct {
	inline bool
	failed error        // of the first ticket that failed
	queue  chan *ticket // nil where operations run inline
	ended  chan struct{}
}

// ticket is a sequence of operations that was issued.
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

// run does a ticket's operations. One that panics (a broken contract) is an error of the step,
// not the end of the process.
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
		t.err = t.ops[i](t.ctx)
	}
}

// issue queues ops, one after the other.
func (c *commStream) issue(ctx context.Context, ops ...op) *ticket {
	t := &ticket{ctx: ctx, ops: ops, done: make(chan struct{})}
	if c.inline {
		c.run(t)
	} else {
		c.queue <- t
	}
	return t
}

// wait returns when the ticket's operations are finished or one has failed. They end with
// the context they were issued under, so this does not hang where that does not.
func (t *ticket) wait() error {
	<-t.done
	return t.err
}

// close waits for what is queued.
func (c *commStream) close() {
	if !c.inline {
		close(c.queue)
		<-c.ended
	}
}
