package train

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"trireme/checkpoint"
	"trireme/data"
	"trireme/flight"
	"trireme/monitor"
	"trireme/trace"
)

// Save saves the full state as checkpoint step-N.
func (r *Run) Save(ctx context.Context) error {
	defer r.deps.Trace.End(r.deps.Trace.Begin(trace.Span{Kind: trace.Checkpoint, Op: "save"}))
	syncing := trace.Now()
	if err := r.engine.Sync(); err != nil { // waits for others
		return err
	}
	r.between.save += trace.Elapsed(syncing)
	r.saving.began, r.asked.save = time.Now(), false
	defer r.countSave(trace.Now(), r.between.waited.Load())
	defer r.deps.Recorder.Leave(r.deps.Recorder.Enter(flight.Saving, fmt.Sprintf("step-%d", r.state.Step)))
	state, err := json.Marshal(r.state)
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	saved, err := r.store.Save(ctx, checkpoint.Meta{
		Step: int(r.state.Step), Strategy: r.Config.Parallel.Strategy, Config: r.deps.Resolved, State: state,
	}, r.engine.State())
	if err != nil {
		return err
	}
	for _, n := range saved.Notices {
		if err := r.sink.Note(n); err != nil {
			return err
		}
	}
	if err := monitor.Emit(r.sink, monitor.Event{
		Step: r.state.Step, Kind: monitor.EventCheckpoint, Path: saved.Path, Bytes: saved.Bytes,
		Text: fmt.Sprintf("saved %s (%s)", saved.Path, monitor.Bytes(saved.Bytes)),
	}); err != nil {
		return err
	}
	return waitingGroup{r.deps.ProcessGroup, &r.between.waited}.barrier(ctx) // rank 0 has deleted old ones
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

func (r *Run) evaluate(ctx context.Context) error {
	defer r.deps.Trace.End(r.deps.Trace.Begin(trace.Span{Kind: trace.Evaluation}))
	defer func(began int64) {
		took := trace.Elapsed(began)
		r.between.eval += took
		r.limit.eval = max(r.limit.eval, took)
	}(trace.Now())
	e, err := r.evaluateOn(ctx, r.sets.Eval)
	if err != nil {
		return err
	}
	if e.Samples, err = r.samples(ctx); err != nil {
		return err
	}
	if err := r.updateBest(e); err != nil {
		return err
	}
	if err := r.sink.Evaluate(e); err != nil {
		return err
	}
	return r.noteCompiled()
}

func (r *Run) evaluateOn(ctx context.Context, d data.Dataset) (e monitor.Evaluation, err error) {
	began := time.Now()
	cfg := r.Config.loaderConfig(r.info, r.accum, r.deps.World.Rank(), r.deps.World.Size())
	cfg.Masking, cfg.Recorder = r.sets.Masking, r.deps.Recorder
	defer r.deps.Recorder.Leave(r.deps.Recorder.Enter(flight.Evaluating, ""))
	if err := r.stepper.Evaluate(ctx, data.EvalBatches(d, cfg)); err != nil {
		return e, err
	}
	o, err := r.result()
	if err != nil {
		return e, err
	}
	e = monitor.Evaluation{
		Step: r.state.Step, Time: time.Now(), Run: r.deps.Run, Loss: o.Loss, Tokens: o.Tokens, Means: o.means(slices.Concat(r.info.Sums, r.info.EvalSums)),
		Seconds: time.Since(began).Seconds(), WorldSize: r.deps.World.Size(),
	}
	o.score(&e, r.info)
	return e, nil
}
