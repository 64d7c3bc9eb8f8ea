package train

import (
	"context"
	"errors"
	"trireme/checkpoint"

	"trireme/fault"
	"trireme/monitor"
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
