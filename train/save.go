package train

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"trireme/checkpoint"
	"trireme/flight"
	"trireme/monitor"
	"trireme/tensor"
	"trireme/trace"
)

// Tiers that checkpoints are saved to: one save is in progress in each at a time.
const (
	savedOnDisk   = iota // checkpoint.dir, or an object store
	savedInMemory        // of the hosts
	numSaves
)

// writing is a checkpoint that is being saved.
type writing struct {
	*checkpoint.Saving
	step       int64
	background bool
	began      int64         // trace.Now
	stalled    time.Duration // of this rank's steps
}

// Save saves the full state as checkpoint step-N, and returns when it is durable and no other save is in progress. All
// ranks call it.
func (r *Run) Save(ctx context.Context) error {
	if err := r.startSave(ctx, savedOnDisk, false); err != nil {
		return err
	}
	for i := range numSaves {
		if err := r.endSave(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// timeSave begins a part of a save that the run waits for; end ends it and returns its time.
func (r *Run) timeSave(step int64) (end func() time.Duration) {
	span, began, waited := r.deps.Trace.Begin(trace.Span{Kind: trace.Checkpoint, Op: "save"}), trace.Now(), r.between.waited.Load()
	left := r.deps.Recorder.Enter(flight.Saving, fmt.Sprintf("step-%d", step))
	return func() time.Duration {
		r.deps.Recorder.Leave(left)
		took := r.countSave(began, waited)
		r.deps.Trace.End(span)
		return took
	}
}

// countStall is timeSave for the save in progress in a tier.
func (r *Run) countStall(tier int, step int64) (end func()) {
	ended := r.timeSave(step)
	return func() {
		took := ended()
		if tier == savedInMemory {
			r.between.memory += took
		}
		if w := r.writing[tier]; w != nil {
			w.stalled += took
		}
	}
}

// meta describes the state.
func (r *Run) meta() (checkpoint.Meta, error) {
	state, err := json.Marshal(r.state)
	if err != nil {
		return checkpoint.Meta{}, fmt.Errorf("train: %w", err)
	}
	return checkpoint.Meta{Step: int(r.state.Step), Strategy: r.Config.Parallel.Strategy, Config: r.deps.Resolved, State: state}, nil
}

// startSave starts to save the full state in a tier. It ends the one before in that tier.
func (r *Run) startSave(ctx context.Context, tier int, background bool) error {
	if w := r.writing[tier]; w != nil {
		began := trace.Now()
		if err := r.endSave(ctx, tier); err != nil {
			return err
		}
		if err := r.sink.Note(fmt.Sprintf("the checkpoint after step %d waited %.2f s for that of step %d, which was still being written", r.state.Step, trace.Elapsed(began).Seconds(), w.step)); err != nil {
			return err
		}
	}
	syncing := trace.Now()
	if err := r.engine.Sync(); err != nil { // waits for others
		return err
	}
	r.between.save += trace.Elapsed(syncing)
	defer r.countStall(tier, r.state.Step)()
	meta, err := r.meta()
	if err != nil {
		return err
	}
	began := trace.Now()
	// The memory of hosts needs no snapshot: it would be another copy in memory. The update waits for the rest.
	store, snapshot := r.memory, []byte(nil)
	if tier == savedOnDisk {
		store, snapshot = r.store, r.snapshot
		r.saving.began, r.asked.save = time.Now(), false
	}
	v, err := store.Start(ctx, meta, r.engine.State(), snapshot)
	if err != nil {
		return err
	}
	r.writing[tier] = &writing{Saving: v, step: r.state.Step, background: background, began: began}
	if background && tensor.Static(r.backend) { // its programs update the state
		v.Hold()
	}
	return nil
}

// hold runs before each update: it copies what saves have not yet written.
func (r *Run) hold() {
	for i, w := range r.writing {
		if w != nil && !tensor.Static(r.backend) {
			end := r.countStall(i, w.step)
			w.Hold()
			end()
		}
	}
}

// endSave waits for the save in progress in a tier.
func (r *Run) endSave(ctx context.Context, tier int) error {
	for r.writing[tier] != nil {
		if err := r.nextSave(ctx, tier, true); err != nil {
			return err
		}
	}
	return nil
}

// nextSave continues the save in progress in a tier by a phase, and reports its end. All ranks call it.
func (r *Run) nextSave(ctx context.Context, tier int, wait bool) error {
	w := r.writing[tier]
	end := r.countStall(tier, w.step)
	saved, ended, err := w.Next(ctx, wait)
	end()
	if ended {
		r.writing[tier] = nil
		if tier == savedOnDisk {
			r.asked.saved = false
		}
	}
	if err != nil || !ended || tier == savedInMemory {
		return err
	}
	r.copySaved(ctx, saved.Path, w.step)
	r.limit.save = max(r.limit.save, trace.Elapsed(w.began))
	for _, n := range saved.Notices {
		if err := r.sink.Note(n); err != nil {
			return err
		}
	}
	e := monitor.Event{
		Step: r.state.Step, Kind: monitor.EventCheckpoint, Path: saved.Path, Bytes: saved.Bytes,
		Text: fmt.Sprintf("saved %s (%s)", saved.Path, monitor.Bytes(saved.Bytes)),
	}
	if w.background {
		wrote := saved.Written.End.Sub(saved.Written.Began)
		e.WriteSeconds, e.StallSeconds = wrote.Seconds(), w.stalled.Seconds()
		e.Text = fmt.Sprintf("saved %s (%s) in the background: rank 0 wrote %.2f s, the run waited %.3f s", saved.Path, monitor.Bytes(saved.Bytes), wrote.Seconds(), w.stalled.Seconds())
	}
	return monitor.Emit(r.sink, e)
}

// ConvertedState returns checkpoint.Meta.State of a checkpoint that another program saved after steps
// steps, whose position in the data is unknown.
func ConvertedState(steps int) ([]byte, error) {
	b, err := json.Marshal(progress{Step: int64(steps), Updates: steps})
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	return b, nil
}
