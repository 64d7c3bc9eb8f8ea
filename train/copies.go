package train

import (
	"context"
	"fmt"
	"time"

	"trireme/checkpoint"
	"trireme/monitor"
)

// copies copies checkpoints on disk to the last tier in the background, on rank 0. After a
// failure it copies a later one.
type copies struct {
	to      *checkpoint.Store // nil without such a tier
	every   int64             // steps; 0: only at the end
	done    int64             // the newest step that the last tier has
	failed  int64             // the step whose copy failed last
	saved   string            // the newest checkpoint on disk
	step    int64             // of it; 0: none
	running *checkpoint.Copying
	began   time.Time // of it
}

// due reports whether the checkpoint of a step is to be copied.
func (c *copies) due(step int64) bool { return c.every > 0 && step/c.every > c.done/c.every }

// copySaved starts to copy a checkpoint that was saved, if it is due and no copy is in progress.
func (r *Run) copySaved(ctx context.Context, path string, step int64) {
	c := &r.copies
	if c.to == nil || r.deps.World.Rank() != 0 {
		return
	}
	if c.saved, c.step = path, step; c.running == nil && c.due(step) {
		r.startCopy(ctx)
	}
}

// startCopy starts to copy the newest checkpoint on disk.
func (r *Run) startCopy(ctx context.Context) {
	c := &r.copies
	c.running, c.began = r.store.StartCopy(ctx, c.saved, int(c.step), c.to), time.Now()
}

// findCopies looks for the newest checkpoints of a run that goes on, on disk and in the last tier.
func (r *Run) findCopies(ctx context.Context) error {
	c := &r.copies
	if c.to == nil || r.deps.World.Rank() != 0 || r.state.Step == 0 {
		return nil
	}
	// A run may go on from an older checkpoint: later ones are of other steps than its own.
	upTo := int(r.state.Step)
	if _, step, err := c.to.Newest(ctx, upTo); err == nil { // a copy reports a tier that does not answer
		c.done = int64(step)
	}
	path, step, err := r.store.Newest(ctx, upTo)
	if err != nil {
		return r.sink.Note(err.Error())
	}
	c.saved, c.step = path, int64(step)
	return nil
}

// continueCopy copies the newest checkpoint on disk if the last tier should have it and does not: its copy was interrupted.
// After the last step it waits. All ranks call it before the first step.
func (r *Run) continueCopy(ctx context.Context) error {
	if r.Done() {
		return r.endCopies(ctx)
	}
	if c := &r.copies; c.running == nil && c.step > c.done && c.due(c.step) {
		r.startCopy(ctx)
	}
	return nil
}

// noteCopy reports the copy in progress when it has ended.
func (r *Run) noteCopy() error {
	c := &r.copies
	if c.running == nil || !c.running.Ended() {
		return nil
	}
	step := int64(c.running.Step)
	saved, err := c.running.Wait()
	c.running = nil
	r.limit.copy = max(r.limit.copy, time.Since(c.began))
	if err != nil {
		c.failed = step
		return r.sink.Note(fmt.Sprintf("the checkpoint of step %d is not copied to %s: %v", step, c.to.Dir(), err))
	}
	c.done = step
	for _, n := range saved.Notices {
		if err := r.sink.Note(n); err != nil {
			return err
		}
	}
	size := monitor.Bytes(saved.Bytes)
	if saved.Kept > 0 {
		size += fmt.Sprintf(", %s of it by an interrupted copy", monitor.Bytes(saved.Kept))
	}
	took := saved.Written.End.Sub(saved.Written.Began).Seconds()
	return monitor.Emit(r.sink, monitor.Event{
		Step: r.state.Step, Kind: monitor.EventCheckpoint, Path: saved.Path, Bytes: saved.Bytes, WriteSeconds: took,
		Text: fmt.Sprintf("copied step-%d to %s (%s) in the background in %.2f s", step, saved.Path, size, took),
	})
}

// endCopies waits for the copy in progress, and copies the newest checkpoint on disk, unless that has just failed. All ranks
// call it after the last step.
func (r *Run) endCopies(ctx context.Context) error {
	c := &r.copies
	if c.to == nil {
		return nil
	}
	if r.deps.World.Rank() == 0 {
		for c.running != nil {
			c.running.Wait()
			if err := r.noteCopy(); err != nil {
				return err
			}
		}
		if c.step > c.done && c.step != c.failed {
			r.startCopy(ctx)
			c.running.Wait()
			if err := r.noteCopy(); err != nil {
				return err
			}
		}
	}
	return r.barrier(ctx)
}

// copyHook reports copies of checkpoints.
type copyHook struct{}

func (copyHook) AfterStep(_ context.Context, r *Run, _ monitor.Record) error { return r.noteCopy() }
