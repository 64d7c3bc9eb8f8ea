package collective

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// work is one operation of a lane.
type work struct {
	h          Header
	dst, src   []byte
	chunks     []int
	accumulate bool

	lane   *lane
	id     uint64 // in the recorder
	posted bool   // the others can see it
	shown  []byte // what they see of src, where that is large
	done   chan struct{}
	err    error // when done
}

var _ Work = (*work)(nil)

// lane runs operations one after the other: a group's, or those of one pair and direction.
// At most one goroutine advances it: its own, which lives while there is something to do,
// or one that waits for a small operation that stands alone.
type lane struct {
	g    *group
	num  int // see Memory
	mu   sync.Mutex
	seq  uint64
	list []*work // the first is the next to be finished
	held bool    // somebody advances the lane
}

// issue numbers and queues w.
func (l *lane) issue(w *work) Work {
	w.lane, w.done = l, make(chan struct{})
	g := l.g
	l.mu.Lock()
	defer l.mu.Unlock()
	w.h.Seq = l.seq
	l.seq++
	w.id = g.rec.issue(&w.h, time.Now())
	if f := g.w.t.Fault().Failure(); f != nil {
		l.end(w, f)
		return w
	}
	if len(g.ranks) == 1 && l.num == 0 && len(l.list) == 0 {
		alone(w)
		l.end(w, nil)
		return w
	}
	l.list = append(l.list, w)
	if l.held {
		return w
	}
	if len(l.list) == 1 && g.mem != nil && mailed(&w.h) {
		l.post(w)
		w.posted = true
		return w
	}
	l.goOn()
	return w
}

// goOn starts the lane's goroutine when there is something to do. A closed world drops it.
func (l *lane) goOn() {
	if len(l.list) == 0 {
		return
	}
	if l.g.w.enter() {
		l.held = true
		go func() {
			defer l.g.w.leave()
			l.run()
		}()
		return
	}
	for _, w := range l.list {
		l.end(w, &Failure{Kind: ErrClosed, Rank: l.g.w.rank, Text: "the world is closed"})
	}
	l.list = nil
}

// end finishes w.
func (l *lane) end(w *work, err error) {
	switch {
	case err == nil:
	case strings.Contains(err.Error(), w.h.String()): // it names the operation itself
		w.err = fmt.Errorf("collective: %w", err)
	default:
		w.err = fmt.Errorf("collective: group %s: %v: %w", l.g.name, &w.h, err)
	}
	l.g.rec.update(w.id, time.Time{}, time.Now(), err != nil)
	w.dst, w.src = nil, nil
	close(w.done)
}

// run advances the lane until nothing is left.
func (l *lane) run() {
	for {
		l.mu.Lock()
		if len(l.list) == 0 {
			l.held = false
			l.mu.Unlock()
			return
		}
		w := l.list[0]
		l.mu.Unlock()
		l.advance(context.Background(), w)
	}
}

// advance brings the first work of a lane that the caller holds to its end. It returns
// false, with the work still to be finished, when ctx ends before.
func (l *lane) advance(ctx context.Context, w *work) bool {
	if !w.posted {
		l.post(w)
		w.posted = true
	}
	err := l.finish(ctx, w)
	if err == errInterrupted {
		return false
	}
	if err != nil {
		f := asFailure(err, l.g.w.rank)
		l.g.w.fail(f)
		err = l.g.w.t.Fault().Failure()
	}
	l.mu.Lock()
	l.list[0] = nil
	l.list = l.list[1:]
	l.mu.Unlock()
	l.end(w, err)
	return true
}

// finish does the operation. A panic in it is an error: no peer may hang for it.
func (l *lane) finish(ctx context.Context, w *work) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("%v\n%s", e, debug.Stack())
		}
	}()
	l.g.note(&w.h, Started)
	l.g.rec.update(w.id, time.Now(), time.Time{}, false)
	if l.g.mem != nil {
		err = (&memoryOp{l: l, w: w, ctx: ctx}).do()
	} else {
		err = (&messageOp{l: l, w: w}).do()
	}
	if err == nil {
		l.g.note(&w.h, Finished)
	}
	return err
}

func (w *work) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	default:
	}
	l := w.lane
	l.mu.Lock()
	if !l.held && len(l.list) > 0 && l.list[0] == w {
		if l.g.w.enter() {
			l.held = true
			l.mu.Unlock()
			l.advance(ctx, w)
			l.g.w.leave()
			l.mu.Lock()
			l.held = false
		}
		l.goOn()
	}
	l.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		select {
		case <-w.done:
			return w.err
		default:
			return fmt.Errorf("collective: group %s: %v: %w", l.g.name, &w.h, ctx.Err())
		}
	}
}
