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
	done    int64             // the step that was copied last
	saved   string            // the checkpoint that was saved last
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
	if c.saved = path; c.running != nil || !c.due(step) {
		return
	}
	r.startCopy(ctx, step)
}

// startCopy starts to copy the checkpoint that was saved last, of a step.
func (r *Run) startCopy(ctx context.Context, step int64) {
	c := &r.copies
	c.running, c.began = r.store.StartCopy(ctx, c.saved, int(step), c.to), time.Now()
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
		return r.sink.Note(fmt.Sprintf("the checkpoint of step %d is not copied to %s: %v", step, c.to.Dir(), err))
	}
	c.done = step
	for _, n := range saved.Notices {
		if err := r.sink.Note(n); err != nil {
			return err
		}
	}
	took := saved.Written.End.Sub(saved.Written.Began).Seconds()
	return monitor.Emit(r.sink, monitor.Event{
		Step: r.state.Step, Kind: monitor.EventCheckpoint, Path: saved.Path, Bytes: saved.Bytes, WriteSeconds: took,
		Text: fmt.Sprintf("copied step-%d to %s (%s) in the background in %.2f s", step, saved.Path, monitor.Bytes(saved.Bytes), took),
	})
}

// endCopies waits for the copy in progress, and copies the checkpoint of the last step. All ranks call it.
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
		if c.done < r.state.Step {
			r.startCopy(ctx, r.state.Step)
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
