package runlog

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"time"

	"trireme/monitor"
)

// pollEvery is the interval at which Follow looks for new lines. Files are polled because network file systems
// notify only writers of the same host.
const pollEvery = 300 * time.Millisecond

// Update has the records and events since the update before.
type Update struct {
	// Reset reports that the run was resumed from an earlier step: records of later steps were removed, and Lines
	// begin with the first step.
	Reset  bool
	Lines  []Line
	Events []monitor.Event
	// Running reports whether a process holds the run's lock.
	Running bool
}

// Follow returns an update whenever there are new records or events or the run starts or ends, until ctx is done. The first comes at
// once, with what was written since Open or the last Refresh. It ends with an error only if the files cannot be
// read.
func (r *Run) Follow(ctx context.Context) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		r.mu.Lock()
		at := r.rec.at
		r.mu.Unlock()
		at.part = max(at.part, 1)
		_, events, err := r.eventsFrom(0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(Update{}, err)
			return
		}
		first, running := true, false
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			var u Update
			if u.Reset, err = r.Refresh(ctx); err != nil {
				if ctx.Err() == nil {
					yield(Update{}, err)
				}
				return
			}
			if u.Reset {
				at = position{}
				if first, _, ok := r.Steps(); ok {
					r.mu.Lock()
					at, _, err = r.find(first)
					r.mu.Unlock()
					if err != nil {
						yield(Update{}, err)
						return
					}
				}
			}
			for line, err := range r.lines(at) {
				if err != nil {
					if !errors.Is(err, fs.ErrNotExist) {
						yield(Update{}, err)
						return
					}
					break
				}
				u.Lines = append(u.Lines, line)
			}
			r.mu.Lock()
			at = r.rec.at
			r.mu.Unlock()
			if u.Events, events, err = r.eventsFrom(events); err != nil && !errors.Is(err, fs.ErrNotExist) {
				yield(Update{}, err)
				return
			}
			u.Running = r.Running()
			if first || u.Reset || len(u.Lines) > 0 || len(u.Events) > 0 || u.Running != running {
				if !yield(u, nil) {
					return
				}
			}
			first, running = false, u.Running
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
}
