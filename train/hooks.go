package train

import (
	"context"
	"fmt"
	"math"

	"trireme/fault"
	"trireme/monitor"
)

// Hook runs after each step, in order, on every rank, since hooks may communicate. An error ends the
// run.
type Hook interface {
	AfterStep(ctx context.Context, r *Run, rec monitor.Record) error
}

// hooks returns the hooks of every run and those of the program. A save in the background comes first: its failure
// ends the run. Histograms precede an evaluation, which ends the life of gradients. Evaluation precedes saving, so
// that a checkpoint includes the best evaluation.
func (r *Run) hooks() []Hook {
	own := []Hook{savedHook{}, copyHook{}, histogramHook{}, evalHook{}, saveHook{}, memoryHook{}}
	if r.deps.Trial {
		own = nil
	}
	return append(append(own, r.deps.Hooks...), stopHook{})
}

// due reports whether a hook with period n is due: every n steps, if n is not 0, and after the last.
func due(n int64, rec monitor.Record) bool {
	return rec.Step == rec.MaxSteps || n > 0 && rec.Step%n == 0
}

// every returns a period in steps, given in steps or in epochs of perEpoch steps.
func every(steps int, epochs float64, perEpoch int64) int64 {
	if epochs > 0 {
		return max(1, int64(math.Round(epochs*float64(perEpoch))))
	}
	return int64(steps)
}

type evalHook struct{}

func (evalHook) AfterStep(ctx context.Context, r *Run, rec monitor.Record) error {
	if r.sets.Eval == nil || !due(r.evalEvery, rec) {
		return nil
	}
	return r.evaluate(ctx)
}

// saveHook saves a checkpoint: periodically, before a stop or a time limit, and after the best evaluation if
// load_best_model_at_end or keep_best is set.
type saveHook struct{}

func (saveHook) AfterStep(ctx context.Context, r *Run, rec monitor.Record) error {
	asked := r.settled && (r.asked.stop || r.asked.save)
	if !asked && !r.saving.due(rec) && !r.isBest(rec.Step) {
		return nil
	}
	if r.Config.Checkpoint.Async && rec.Step < rec.MaxSteps && !r.asked.stop {
		return r.startSave(ctx, savedOnDisk, true)
	}
	if err := r.Save(ctx); err != nil || rec.Step < rec.MaxSteps && !r.asked.stop {
		return err
	}
	return r.endCopies(ctx)
}

// memoryHook saves a checkpoint in memory. If its state names a best checkpoint, that one is on disk.
type memoryHook struct{}

func (memoryHook) AfterStep(ctx context.Context, r *Run, rec monitor.Record) error {
	if w := r.writing[savedOnDisk]; r.asked.stop || !r.saving.inMemory(rec) || w != nil && r.isBest(w.step) {
		return nil
	}
	if err := r.startSave(ctx, savedInMemory, r.Config.Checkpoint.Async); err != nil || r.Config.Checkpoint.Async {
		return err
	}
	return r.endSave(ctx, savedInMemory)
}

// savedHook continues saves in the background: that on disk when all ranks are done with a phase of it, and that in
// memory after one step, whose update has waited until all was written.
type savedHook struct{}

func (savedHook) AfterStep(ctx context.Context, r *Run, _ monitor.Record) error {
	if !r.settled {
		return nil
	}
	if err := r.endSave(ctx, savedInMemory); err != nil || !r.asked.saved {
		return err
	}
	r.asked.saved = false
	return r.nextSave(ctx, savedOnDisk, false)
}

type stopHook struct{}

func (stopHook) AfterStep(_ context.Context, r *Run, rec monitor.Record) error {
	if !r.asked.stop || !r.settled || rec.Step == rec.MaxSteps {
		return nil
	}
	return fault.Try(fmt.Errorf("%w at step %d of %d", ErrStopped, rec.Step, rec.MaxSteps), "the same command with %s", fault.Set("resume", "auto"))
}
