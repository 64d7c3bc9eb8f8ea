package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"trireme/checkpoint"
	"trireme/fault"
	"trireme/flight"
	"trireme/internal/conf"
	"trireme/monitor"
)

type best struct {
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
}

// metric returns the value of the named metric, and whether higher is better.
func metric(name string, e monitor.Evaluation) (v float64, more bool, err error) {
	switch name {
	case "", "eval_loss", "loss":
		return e.Loss, false, nil
	case "perplexity":
		return e.Perplexity(), false, nil
	case "accuracy", "macro_f1":
		p := e.Accuracy
		if name == "macro_f1" {
			p = e.MacroF1
		}
		if p == nil {
			return 0, true, fault.Try(fmt.Errorf("train: metric_for_best_model %s needs a classifier; this model predicts tokens", name), "eval_loss")
		}
		return *p, true, nil
	}
	if v, ok := e.Means[name]; ok {
		return v, false, nil
	}
	known := []string{"eval_loss", "perplexity", "accuracy", "macro_f1"}
	for k := range e.Means {
		known = append(known, k)
	}
	slices.Sort(known[4:])
	return 0, false, fmt.Errorf("train: metric_for_best_model: %w", conf.NotOneOf(name, known...))
}

// Best returns the best evaluation by metric_for_best_model; false if none has a value.
func (c Training) Best(all []monitor.Evaluation) (best monitor.Evaluation, ok bool) {
	most := 0.0
	for _, e := range all {
		v, more, err := metric(c.MetricForBestModel, e)
		if !more {
			v = -v
		}
		if err == nil && !math.IsNaN(v) && (!ok || v > most) {
			best, most, ok = e, v, true
		}
	}
	return best, ok
}

// BestStep returns the step of the best evaluation in the state of a checkpoint (checkpoint.Meta); false if it has none.
func BestStep(state []byte) (step int64, ok bool) {
	var p progress
	if err := json.Unmarshal(state, &p); err != nil || p.Best == nil {
		return 0, false
	}
	return p.Best.Step, true
}

// keepsBest reports whether the checkpoint of the best evaluation is kept.
func (c Config) keepsBest() bool { return c.Training.LoadBestModelAtEnd || c.Checkpoint.KeepBest }

// updateBest records an evaluation that is better than all before and keeps its checkpoint. A value
// that is not finite is never best.
func (r *Run) updateBest(e monitor.Evaluation) error {
	if !r.Config.keepsBest() {
		return nil
	}
	v, more, err := metric(r.Config.Training.MetricForBestModel, e)
	if err != nil {
		return input(err)
	}
	if v-v != 0 {
		return r.sink.Note(fmt.Sprintf("evaluation after step %d: %s is %v, cannot be the best", e.Step, r.Config.Training.MetricForBestModel, v))
	}
	if b := r.state.Best; b == nil || more && v > b.Value || !more && v < b.Value {
		r.state.Best = &best{e.Step, v}
		r.protectBest()
	}
	return nil
}

// protectBest keeps the checkpoint of the best evaluation in all tiers that keep checkpoints.
func (r *Run) protectBest() {
	for _, s := range r.keeping() {
		s.Protect(int(r.state.Best.Step))
	}
}

// keeping lists the tiers that keep checkpoints, the nearest first.
func (r *Run) keeping() []*checkpoint.Store {
	if r.copies.to == nil {
		return []*checkpoint.Store{r.store}
	}
	return []*checkpoint.Store{r.store, r.copies.to}
}

func (r *Run) isBest(step int64) bool { return r.state.Best != nil && r.state.Best.Step == step }

// loadBest loads the parameters of the best evaluation if the configuration asks for them and they are
// not the current ones.
func (r *Run) loadBest(ctx context.Context) error {
	b := r.state.Best
	switch {
	case !r.Config.Training.LoadBestModelAtEnd:
		return nil
	case b == nil:
		return r.sink.Note("load_best_model_at_end: no evaluation was finite, keeping the weights of the last step")
	case b.Step == r.state.Step:
		return nil
	}
	defer r.deps.Recorder.Leave(r.deps.Recorder.Enter(flight.LoadingWeights, fmt.Sprintf("step-%d", b.Step)))
	path, err := checkpoint.StepPath(ctx, r.keeping(), int(b.Step))
	if err == nil && path == "" {
		err = fmt.Errorf("%s has no valid checkpoint of step %d any more", r.store.Dir(), b.Step)
	}
	if err != nil {
		return fmt.Errorf("train: load_best_model_at_end: %w", err)
	}
	if err := r.store.Load(ctx, path, r.engine.State()); err != nil {
		return fmt.Errorf("train: load_best_model_at_end: %w", err)
	}
	if err := r.engine.Refresh(ctx); err != nil {
		return err
	}
	name := r.Config.Training.MetricForBestModel
	return r.sink.Note(fmt.Sprintf("loaded the best checkpoint %s (%s %.6g)", path, name, b.Value))
}
