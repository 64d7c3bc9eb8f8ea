package train

import (
	"context"
	"fmt"
	"math"

	"trireme/fault"
	"trireme/monitor"
)

// Hook is what happens between steps. Hooks run in order after each step, on every rank alike,
// since they may communicate. An error ends the run.
type Hook interface {
	AfterStep(ctx context.Context, r *Run, rec monitor.Record) error
}

// hooks are those of every run, and then the program's own: an evaluation comes before the
// save, so that a checkpoint does not outrun what is known of it.
func (r *Run) hooks() []Hook {
	own := []Hook{evalHook{}, saveHook{}}
	return append(append(own, r.deps.Hooks...), stopHook{})
}

// due says whether something is to happen after this step: every n steps, where n is not 0,
// and after the last.
func due(n int64, rec monitor.Record) bool {
	return rec.Step == rec.MaxSteps || n > 0 && rec.Step%n == 0
}

// every is the number of steps between two times, given in steps or in epochs of so many.
func every(steps int, epochs float64, perEpoch int64) int64 {
	if epochs > 0 {
		return max(1, int64(math.Round(epochs*float64(perEpoch))))
	}
	return int64(steps)
}

// evalHook passes over the evaluation set.
type evalHook struct{}

func (evalHook) AfterStep(ctx context.Context, r *Run, rec monitor.Record) error {
	if r.sets.Eval == nil || !due(r.evalEvery, rec) {
		return nil
	}
	return r.evaluate(ctx)
}

// saveHook stores a checkpoint, also when the run is to stop, and after the best evaluation so far
// where that one is wanted in the end.
type saveHook struct{}

func (saveHook) AfterStep(ctx context.Context, r *Run, rec monitor.Record) error {
	if !r.stopped && !due(r.saveEvery[0], rec) && !due(r.saveEvery[1], rec) && !r.isBest(rec.Step) {
		return nil
	}
	return r.Save(ctx)
}

// stopHook ends a run that was asked to end, once everything else is done.
type stopHook struct{}

func (stopHook) AfterStep(_ context.Context, r *Run, rec monitor.Record) error {
	if !r.stopped || rec.Step == rec.MaxSteps {
		return nil
	}
	return fault.Try(fmt.Errorf("%w at step %d of %d", ErrStopped, rec.Step, rec.MaxSteps), "the same command with %s", fault.Set("resume", "auto"))
}
