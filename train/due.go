package train

import (
	"fmt"
	"slices"
	"time"

	"trireme/monitor"
	"trireme/parallel"
)

// votes are requests of ranks.
type votes struct {
	stop, save bool
	saved      bool // all ranks are done with a phase of a save, or one has failed
}

// saving decides after which steps checkpoints are saved besides the last one.
type saving struct {
	every  [2]int64      // steps: save_every_n_steps and save_every_n_epochs; 0: never
	memory int64         // steps between checkpoints in memory; 0: never
	after  time.Duration // save_every_n_minutes; 0: never
	began  time.Time     // the last save, or the start
}

// due reports whether a checkpoint is due by its number of steps.
func (s *saving) due(rec monitor.Record) bool { return due(s.every[0], rec) || due(s.every[1], rec) }

// inMemory reports whether a checkpoint in memory is due. After the last step one on disk is saved instead.
func (s *saving) inMemory(rec monitor.Record) bool {
	return s.memory > 0 && rec.Step%s.memory == 0 && rec.Step < rec.MaxSteps
}

// overdue reports whether a checkpoint is due by time.
func (s *saving) overdue(now time.Time) bool { return s.after > 0 && now.Sub(s.began) >= s.after }

// timeLimit decides when a run stops because its time ends.
type timeLimit struct {
	end    time.Time     // zero: unknown
	margin time.Duration // training.stop_margin_seconds
	// The longest so far: a save, an evaluation, and a copy to the last tier, also one that failed or is in progress.
	save, eval, copy time.Duration
	said             bool
}

func minutes(n float64) time.Duration { return time.Duration(min(n, 1e8) * float64(time.Minute)) }

// earlier returns the earlier time; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// reached reports whether a run stops after the step that begins, with steps of up to step, so that it can
// finish those, an evaluation and a save in time, and the copies that its end waits for: the one in progress and that of
// the last checkpoint.
func (l *timeLimit) reached(now time.Time, step time.Duration, steps int) bool {
	return !l.end.IsZero() && l.end.Sub(now) < l.margin+time.Duration(steps+1)*step+l.eval+2*l.save+2*l.copy
}

// voteByTime votes for a save or a stop if it is time. Only rank 0 looks at the clock.
func (r *Run) voteByTime() error {
	if r.deps.World.Rank() != 0 {
		return nil
	}
	now := time.Now()
	if r.saving.overdue(now) && !r.deps.Trial {
		r.engine.Vote(parallel.VoteSave)
	}
	l := &r.limit
	if r.copies.running != nil {
		l.copy = max(l.copy, now.Sub(r.copies.began))
	}
	if !l.reached(now, r.window.longest(), r.inFlight()) {
		return nil
	}
	r.engine.Vote(parallel.VoteStop)
	if l.said {
		return nil
	}
	l.said = true
	return r.sink.Note(fmt.Sprintf("the time limit is in %.0f s: stopping with a checkpoint", time.Until(l.end).Seconds()))
}

// longest returns the longest of the last steps.
func (w *window) longest() time.Duration {
	last := w.last[:min(w.n, windowSteps)]
	if len(last) == 0 {
		return 0
	}
	return time.Duration(slices.Max(last) * float64(time.Second))
}
