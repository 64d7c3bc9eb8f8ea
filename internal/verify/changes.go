package verify

import (
	"fmt"
	"strconv"
	"strings"

	"trireme/parallel"
	"trireme/train"
)

// recomputations are all kinds of recomputation, on several ranks, which gather parameters again for it.
func (e Experiment) recomputations() (out []Part) {
	kinds := []train.Recompute{
		{},
		{Enabled: true},
		{Enabled: true, EveryNLayers: 2},
		{Enabled: true, Part: "attention"},
		{Enabled: true, Part: "mlp"},
		{Enabled: true, Part: "attention_and_mlp"},
		{Enabled: true, Keep: "attention"},
		{Enabled: true, Keep: "products"},
		{Enabled: true, Segments: train.SqrtSegments},
		{Enabled: true, Segments: train.SqrtSegments, Nested: true},
		{Enabled: true, Store: "disk"},
	}
	for _, k := range kinds {
		if e.Layers < 2 && (k.EveryNLayers > 1 || k.Segments != 0) || k.Store == "disk" && e.Config.Device.Name.Accelerator() {
			continue
		}
		p := e.several()
		c := train.Default().Recompute
		c.Enabled, c.Segments, c.Nested = k.Enabled, k.Segments, k.Nested
		c.EveryNLayers = max(c.EveryNLayers, k.EveryNLayers)
		if k.Part != "" {
			c.Part = k.Part
		}
		if k.Keep != "" {
			c.Keep = k.Keep
		}
		if k.Store != "" {
			c.Store = k.Store
		}
		if p.Config.Recompute = c; k == (train.Recompute{}) && !e.Config.Recompute.Enabled {
			continue // the reference keeps everything
		}
		out = append(out, p)
	}
	return out
}

// offloads keep optimizer state, parameters and both in files, on several ranks that shard parameters.
func (e Experiment) offloads() (out []Part) {
	if e.Config.Device.Name.Accelerator() {
		return nil
	}
	p := e.several()
	if s, _ := parallel.ParseStrategy(p.Config.Parallel.Strategy); !s.Params {
		p = e.at(p.World, "full_shard")
	}
	for _, files := range [][2]parallel.OffloadDevice{
		{parallel.OffloadNone, parallel.OffloadNone},
		{parallel.OffloadNVMe, parallel.OffloadNone},
		{parallel.OffloadNone, parallel.OffloadNVMe},
		{parallel.OffloadNVMe, parallel.OffloadNVMe},
	} {
		o := parallel.DefaultOffload()
		o.Optimizer.SubGroupSize = e.Config.Offload.Optimizer.SubGroupSize
		o.Optimizer.Device, o.Params.Device = files[0], files[1]
		was := e.Config.Offload
		if o.Optimizer.Device == parallel.OffloadNone && o.Params.Device == parallel.OffloadNone && was.Optimizer.Device != parallel.OffloadNVMe && was.Params.Device != parallel.OffloadNVMe {
			continue // the reference has no files
		}
		p.Config.Offload = o
		out = append(out, p)
	}
	return out
}

// resumes stop and resume: once, three times, on several ranks, and each time with other ranks and strategies.
func (e Experiment) resumes() []Trial {
	thrice := []int{e.Steps / 4, e.Steps / 2, e.Steps * 3 / 4}
	one, several := e.reference(), e.several()
	out := []Trial{e.resume([]int{e.Steps / 2}, one, one), e.resume(thrice, one, one, one, one)}
	if several.World != one.World {
		out = append(out, e.resume(thrice, several, several, several, several))
	}
	largest := e.Worlds[len(e.Worlds)-1]
	last := e.Strategies[len(e.Strategies)-1]
	return append(out, e.resume(thrice, one, e.at(several.World, e.Strategies[0]), e.at(largest, last), e.at(several.World, e.Strategies[min(1, len(e.Strategies)-1)])))
}

// resume is a run of parts. Each stops after the step of stops, the last one at the end.
func (e Experiment) resume(stops []int, parts ...Part) Trial {
	var steps []string
	for i, s := range stops {
		parts[i].Until = s
		steps = append(steps, strconv.Itoa(s))
	}
	text := "stopped after step " + steps[0]
	if len(steps) > 1 {
		text = "stopped after steps " + strings.Join(steps[:len(steps)-1], ", ") + " and " + steps[len(steps)-1]
	}
	texts := []string{}
	changes := false
	for i, p := range parts {
		changes = changes || i > 0 && describe(p) != describe(parts[i-1])
		texts = append(texts, describe(p))
	}
	if !changes {
		texts = texts[:1]
	}
	return Trial{Kind: Resume, Differs: text + ": " + strings.Join(texts, ", "), Parts: parts}
}

func describe(p Part) string { return ranks(p.World) + " " + p.Config.Parallel.Strategy }

// Divide returns t with micro-batches for every number of ranks up to the largest: smaller ones of the same rows per
// step. If a step has fewer rows than ranks, it gets one for each.
func Divide(t train.Training, largest int) train.Training {
	if t.MicroBatchTokens > 0 {
		return t // their number follows from the rows' lengths
	}
	t.GlobalBatchSize = max(t.GlobalBatchSize, largest)
	for t.GlobalBatchSize/t.MicroBatchSize < largest || t.GlobalBatchSize%t.MicroBatchSize != 0 {
		t.MicroBatchSize--
	}
	return t
}

// microBatches has the configuration's micro-batches if the reference has smaller ones, or else smaller ones. Their
// gradients are rounded before they are added, so the bits differ.
func (e Experiment) microBatches() []Trial {
	p := e.reference()
	t := &p.Config.Training
	n := e.MicroBatch
	if n == t.MicroBatchSize {
		for n--; n > 0 && t.GlobalBatchSize%n != 0; {
			n--
		}
	}
	if t.MicroBatchTokens > 0 || n == 0 || t.GlobalBatchSize%n != 0 {
		return nil
	}
	t.MicroBatchSize = n
	limit := 1e-3
	if e.Config.Precision.ParamDType != "float32" || e.Config.Precision.ReduceDType != "float32" {
		limit = 0.05
	}
	return []Trial{{
		Kind: MicroBatches, Parts: []Part{p}, Tolerance: limit,
		Why: fmt.Sprintf("gradients are rounded to %s after each micro-batch, so other micro-batches have other bits", e.Config.Precision.ReduceDType),
	}}
}
