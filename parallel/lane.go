package parallel

import (
	"context"
	"fmt"

	"trireme/collective"
)

// lane is the engine's one communication goroutine. Collectives of all groups run on it in
// the order in which the engine issues them, which is the same on every rank, so that an
// operation of one group may depend on an earlier one of another. After one has failed all
// that follow fail with it: the other ranks wait for the one that is missing.
type lane struct {
	queue chan *ticket
	ended chan struct{}
}

// ticket is a sequence of collectives on its way.
type ticket struct {
	ctx  context.Context
	ops  []func() collective.Work
	err  error
	done chan struct{}
}

func newLane() *lane {
	l := &lane{queue: make(chan *ticket, 64), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		var failed error
		for t := range l.queue {
			if t.err = failed; failed == nil {
				t.run()
				failed = t.err
			}
			close(t.done)
		}
	}()
	return l
}

// run does the operations. One that panics (a broken contract) is an error of the step, not
// the end of the process.
func (t *ticket) run() {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			t.err = fmt.Errorf("parallel: in a collective: %w", p)
		default:
			t.err = fmt.Errorf("parallel: in a collective: %v", p)
		}
	}()
	for _, op := range t.ops {
		if t.err = op().Wait(t.ctx); t.err != nil {
			return
		}
	}
}

// issue queues ops, one after the other.
func (l *lane) issue(ctx context.Context, ops ...func() collective.Work) *ticket {
	t := &ticket{ctx: ctx, ops: ops, done: make(chan struct{})}
	l.queue <- t
	return t
}

// wait returns when the ticket's collectives are finished or one has failed. They end with
// the context they were issued under, so this does not hang where that does not.
func (t *ticket) wait() error {
	<-t.done
	return t.err
}

// close waits for what is queued.
func (l *lane) close() {
	close(l.queue)
	<-l.ended
}
