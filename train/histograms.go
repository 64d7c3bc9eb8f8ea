package train

import (
	"context"

	"trireme/checkpoint"
	"trireme/monitor"
	"trireme/tensor"
)

// histogramHook counts the weights and the gradients of a step for the sinks that show histograms. Each rank
// counts the elements that it owns; one all-reduce adds the counts.
type histogramHook struct{}

func (r *Run) histogramsDue(step int64) bool {
	n := int64(r.Config.Logging.HistogramsEveryNSteps)
	return n > 0 && step%n == 0
}

func (histogramHook) AfterStep(ctx context.Context, r *Run, rec monitor.Record) error {
	if !r.histogramsDue(rec.Step) {
		return nil
	}
	scale := 1 / float64(max(1, rec.LabelTokens)) // of the mean gradient
	if rec.LossScale > 0 {
		scale /= rec.LossScale
	}
	h := monitor.Histograms{Step: rec.Step, Time: rec.Time}
	var names []string
	index := map[string]int{}
	for _, u := range r.model.Units() {
		for _, p := range u.Params {
			if !p.Frozen {
				index[p.Name] = len(names)
				names = append(names, p.Name)
			}
		}
	}
	const n = monitor.HistogramBuckets
	counts := make([]int64, 2*len(names)*n) // weights, then gradients
	count := func(first int, shards []tensor.Shard, scale float32) error {
		return checkpoint.EachChunk(r.backend, shards, func(s tensor.Shard, _ int, b []byte) error {
			if at, ok := index[s.Name]; ok {
				at = (first + at) * n
				monitor.CountBuckets(counts[at:at+n], tensor.FromBytes[float32](b), scale)
			}
			return nil
		})
	}
	if err := count(0, r.engine.OwnedParams(), 1); err != nil {
		return err
	}
	if err := count(len(names), r.engine.OwnedGrads(), float32(scale)); err != nil {
		return err
	}
	if err := r.engine.Sum(ctx, counts); err != nil || r.deps.World.Rank() > 0 {
		return err
	}
	for i, name := range names {
		at := (len(names) + i) * n
		h.Weights = append(h.Weights, monitor.Histogram{Name: name, Counts: counts[i*n : (i+1)*n]})
		h.Gradients = append(h.Gradients, monitor.Histogram{Name: name, Counts: counts[at : at+n]})
	}
	return monitor.WriteHistograms(r.sink, h)
}
