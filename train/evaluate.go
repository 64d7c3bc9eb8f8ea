package train

import (
	"context"
	"errors"
	"slices"
	"time"

	"trireme/checkpoint"
	"trireme/data"
	"trireme/fault"
	"trireme/flight"
	"trireme/monitor"
	"trireme/trace"
)

// Evaluate evaluates the weights of the model, or of deps.Checkpoint, on the evaluation set, or on the
// training data if there is none. It writes nothing. All ranks call it.
func Evaluate(ctx context.Context, cfg Config, deps Deps) (e monitor.Evaluation, err error) {
	if cfg.Model.randomInit() && deps.Checkpoint == "" {
		return e, input(fault.Try(errors.New("train: no weights to evaluate: model.path is not set"), "%s", fault.Set("model.path", "DIR")))
	}
	r := &Run{Config: cfg, deps: deps, sink: monitor.Multi(nil), accum: 1}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.readConfig(); err != nil {
		return e, err
	}
	tok, err := cfg.openTokenizer()
	if err != nil {
		return e, input(err)
	}
	if r.sets, err = cfg.openSets(ctx, r.config, r.info, tok, deps.Recorder, deps.Tokenizing); err != nil {
		return e, input(err)
	}
	set := r.sets.Eval
	if set == nil {
		set = r.sets.Train
	}
	r.Config.Data.SequenceLength = r.sets.SequenceLength(cfg.Data)
	if err := r.barrier(ctx); err != nil {
		return e, err
	}
	if err := r.openModel(r.Config.Data.SequenceLength, set.Info(), false); err != nil {
		return e, err
	}
	if deps.Checkpoint != "" {
		err = loadParams(ctx, r.backend, r.engine, deps.Checkpoint, checkpoint.Param)
	} else {
		err = r.loadWeights(ctx, false)
	}
	if err != nil {
		return e, err
	}
	if err := r.barrier(ctx); err != nil {
		return e, err
	}
	if err := r.engine.Refresh(ctx); err != nil {
		return e, err
	}
	return r.evaluateOn(ctx, set)
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
