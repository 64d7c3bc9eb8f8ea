package trackers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"trireme/monitor"
)

// event is one of a record, an evaluation, histograms and a note.
type event struct {
	record     *monitor.Record
	eval       *monitor.Evaluation
	histograms *monitor.Histograms
	note       string
	at         time.Time
}

// sender delivers events to one tracker. One goroutine calls it.
type sender interface {
	// send delivers events, in order. After an error it is called again with the same events, unless the
	// error is a rejection.
	send(ctx context.Context, events []event) error
	// finish ends the run at the tracker, after the last event.
	finish(ctx context.Context, end End) error
}

// rejection is an error that the same events would cause again.
type rejection struct{ error }

func (r rejection) Unwrap() error { return r.error }

// queue is a Sink that passes events to a sender in a goroutine. Its methods do not wait for it, except
// Close, up to a limit.
type queue struct {
	name   string
	to     sender
	limits limits
	run    Run

	in      chan event
	dropped int           // events for which in was full
	closing chan struct{} // closed by Close
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when the goroutine ends

	away atomic.Bool // the last send failed, and was not rejected

	// Used by the goroutine only until done is closed:
	lost   int   // events that were not delivered
	last   error // of the last send
	failed bool  // the last send failed
}

// limits are the bounds of a queue.
type limits struct {
	events  int           // that wait
	gather  time.Duration // a send waits this long for more events
	request time.Duration // of a send
	retry   time.Duration // before the first repetition of a send; doubled up to maxRetry
	flush   time.Duration // of Close
}

// usual are the limits of a run. A queue of 4096 records is 7 minutes of 0.1 s steps and a few MB.
var usual = limits{events: 4096, gather: time.Second, request: 10 * time.Second, retry: time.Second, flush: 5 * time.Second}

const (
	maxRetry = 30 * time.Second
	maxBatch = 500 // events of a send
)

var (
	_ monitor.Sink          = (*queue)(nil)
	_ monitor.HistogramSink = (*queue)(nil)
)

func newQueue(name string, to sender, run Run, l limits) *queue {
	q := &queue{name: name, to: to, limits: l, run: run, in: make(chan event, l.events), closing: make(chan struct{}), done: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	go q.loop()
	return q
}

func (q *queue) add(e event) error {
	e.at = time.Now()
	select {
	case q.in <- e:
	default:
		q.dropped++
	}
	return nil
}

func (q *queue) Record(r monitor.Record) error       { return q.add(event{record: &r}) }
func (q *queue) Evaluate(e monitor.Evaluation) error { return q.add(event{eval: &e}) }
func (q *queue) Note(text string) error              { return q.add(event{note: text}) }

func (q *queue) Histograms(h monitor.Histograms) error { return q.add(event{histograms: &h}) }

// Close sends what waits, up to the limit, and notes how many events were lost. A tracker that was away at the
// last request gets one more, with two fifths of the limit.
func (q *queue) Close() error {
	flush := q.limits.flush
	if q.away.Load() {
		flush = flush * 2 / 5
	}
	close(q.closing)
	close(q.in)
	timeout := time.AfterFunc(flush, q.cancel)
	defer timeout.Stop()
	defer q.cancel()
	select {
	case <-q.done:
		if n := q.lost + q.dropped; n > 0 {
			why := "the queue was full"
			if q.last != nil {
				why = q.last.Error()
			}
			q.run.note("%s: %d records and notes were not delivered (%s); metrics.jsonl has all records", q.name, n, why)
		}
	case <-time.After(flush + time.Second): // a write to a stalled file system ignores the context
		q.run.note("%s: does not end; its last records may be missing, metrics.jsonl has all", q.name)
	}
	return nil
}

func (q *queue) loop() {
	defer close(q.done)
	for open := true; open; {
		var batch []event
		if batch, open = q.gather(); len(batch) > 0 {
			q.deliver(batch)
		}
	}
	ctx, cancel := context.WithTimeout(q.ctx, q.limits.request)
	defer cancel()
	if err := q.to.finish(ctx, q.run.end()); err != nil {
		q.fail(err)
	}
}

// gather waits for an event and for those that follow it. open is false after the last.
func (q *queue) gather() (batch []event, open bool) {
	e, open := <-q.in
	if !open {
		return nil, false
	}
	batch = append(batch, e)
	timer := time.NewTimer(q.limits.gather)
	defer timer.Stop()
	closing := q.closing
	for len(batch) < maxBatch {
		select {
		case e, open := <-q.in:
			if !open {
				return batch, false
			}
			batch = append(batch, e)
		case <-timer.C:
			return batch, true
		case <-closing: // the rest is in the queue
			timer.Reset(q.limits.flush)
			closing = nil
		}
	}
	return batch, true
}

// deliver sends a batch until it is accepted or rejected. While the queue is closing, it gives up the second
// time that the tracker is away.
func (q *queue) deliver(batch []event) {
	for wait := q.limits.retry; ; wait = min(2*wait, maxRetry) {
		ctx, cancel := context.WithTimeout(q.ctx, q.limits.request)
		err := q.to.send(ctx, batch)
		cancel()
		if err == nil {
			q.away.Store(false)
			if q.failed {
				q.failed = false
				q.run.note("%s: records are delivered again", q.name)
			}
			return
		}
		q.fail(err)
		rejected := errors.As(err, &rejection{})
		if again := q.away.Swap(!rejected); rejected || !q.pause(wait, again) {
			q.lost += len(batch)
			return
		}
	}
}

// fail notes the first error, and the first after a delivery.
func (q *queue) fail(err error) {
	if !q.failed {
		q.run.note("%s: %v; training continues, and metrics.jsonl has all records", q.name, err)
	}
	q.failed = true
	if q.last == nil || q.ctx.Err() == nil { // else it is the end of the flush
		q.last = err
	}
}

// pause waits before a repetition and reports whether to repeat. again is that the send before failed too: a
// queue that is closing then ends, and the sends of what is left fail at once.
func (q *queue) pause(d time.Duration, again bool) bool {
	select {
	case <-q.closing:
		if again {
			q.cancel()
		}
		d = min(d, q.limits.flush/5)
	default:
		select {
		case <-q.closing:
			return q.ctx.Err() == nil
		case <-time.After(d):
			return true
		}
	}
	select {
	case <-q.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// note prints a note of a tracker.
func (r Run) note(format string, args ...any) {
	if r.Print != nil {
		r.Print(monitor.EscapeControl(fmt.Sprintf(format, args...)))
	}
}
