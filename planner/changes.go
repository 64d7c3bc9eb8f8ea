package planner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"trireme/device"
	"trireme/internal/conf"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

// Change is a modification of a job that needs less memory.
type Change struct {
	What string   // micro_batch_size 4 -> 2 with accumulation 4 -> 8
	Keys []string // path=value, for --set
	Plan Plan
	// ChangesResult reports that results differ by more than the order of sums.
	ChangesResult bool
	job           Job
}

// changeKind returns the degrees of one kind of change, the smallest first.
type changeKind func(j Job) []Change

// Changes returns the changes that make a job fit limit, in bytes of a rank, the cheapest first: smaller
// micro-batches, less prefetch, more sharding, recomputation, offload, and bfloat16, each to the
// smallest degree that fits. If none fits alone, it returns one combination that does, or nil.
func (j Job) Changes(ctx context.Context, limit int64) ([]Change, error) {
	kinds := []changeKind{Job.smallerMicroBatches, Job.lessGathered, Job.moreSharding, Job.moreRecompute, Job.moreOffload, Job.lowerPrecision}
	var fit []Change
	for _, k := range kinds {
		c, err := firstFit(ctx, k(j), limit)
		if err != nil {
			return nil, err
		}
		if c != nil {
			fit = append(fit, *c)
		}
	}
	if len(fit) > 0 {
		return fit, nil
	}
	// Combine kinds in order until the job fits, then reduce their degrees.
	for n := 2; n <= len(kinds); n++ {
		c, err := combine(ctx, j, kinds[:n], limit)
		if err != nil || c != nil {
			return list(c), err
		}
	}
	return nil, nil
}

func list(c *Change) []Change {
	if c == nil {
		return nil
	}
	return []Change{*c}
}

func firstFit(ctx context.Context, changes []Change, limit int64) (*Change, error) {
	for _, c := range changes {
		var err error
		if c.Plan, err = c.job.Run(ctx, 0); err != nil {
			return nil, err
		}
		if c.Plan.Memory.PeakTotal <= limit {
			return &c, nil
		}
	}
	return nil, nil
}

// combine applies changes of all kinds, each to the smallest degree that fits with the others.
func combine(ctx context.Context, j Job, kinds []changeKind, limit int64) (*Change, error) {
	chosen := make([]int, len(kinds)) // degree of each kind; 0 is none
	for i, k := range kinds {
		chosen[i] = len(k(j))
	}
	c, fits, err := apply(ctx, j, kinds, chosen, limit)
	if err != nil || !fits {
		return nil, err
	}
	for i := range slices.Backward(kinds) { // reduce the most expensive first
		for chosen[i] > 0 {
			try := slices.Clone(chosen)
			try[i]--
			less, fits, err := apply(ctx, j, kinds, try, limit)
			if err != nil {
				return nil, err
			}
			if !fits {
				break
			}
			c, chosen = less, try
		}
	}
	return c, nil
}

func apply(ctx context.Context, j Job, kinds []changeKind, how []int, limit int64) (*Change, bool, error) {
	c := Change{job: j}
	var what []string
	for i, k := range kinds {
		if how[i] == 0 {
			continue
		}
		one := k(c.job)[how[i]-1]
		what = append(what, one.What)
		c.Keys, c.job, c.ChangesResult = append(c.Keys, one.Keys...), one.job, c.ChangesResult || one.ChangesResult
	}
	c.What = strings.Join(what, ", and ")
	var err error
	c.Plan, err = c.job.Run(ctx, 0)
	return &c, c.Plan.Memory.PeakTotal <= limit, err
}

func (j Job) change(what string, to Job) Change {
	c := Change{What: what, job: to}
	paths := conf.Paths[train.Config]()
	for _, path := range paths {
		if slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, path+".") }) {
			continue // a node: its keys are listed themselves
		}
		if was, is := conf.Get(j.Config, path), conf.Get(to.Config, path); was != is {
			c.Keys = append(c.Keys, path+"="+is)
		}
	}
	return c
}

// smallerMicroBatches returns micro-batch sizes that divide the job's.
func (j Job) smallerMicroBatches() []Change {
	b, err := j.Batch()
	if err != nil {
		return nil
	}
	var out []Change
	for n := 2; n <= b.Micro; n++ {
		if b.Micro%n != 0 {
			continue
		}
		if tokens := j.Config.Training.MicroBatchTokens; tokens > 0 {
			less := j.withBatch(Batch{Micro: b.Micro / n})
			out = append(out, j.change(fmt.Sprintf("micro_batch_tokens %d -> %d", tokens, less.Config.Training.MicroBatchTokens), less))
			continue
		}
		to := Batch{b.Micro / n, j.accumulation(b.Global, b.Micro/n), b.Global}
		out = append(out, j.change(fmt.Sprintf("micro_batch_size %d -> %d with accumulation %d -> %d", b.Micro, to.Micro, b.Accumulation, to.Accumulation), j.withBatch(to)))
	}
	return out
}

// lessGathered returns the default prefetch and resharding, if the job's keep more.
func (j Job) lessGathered() []Change {
	to := j
	d := parallel.Default()
	to.Config.Parallel.PrefetchUnits = min(to.Config.Parallel.PrefetchUnits, d.PrefetchUnits)
	to.Config.Parallel.ReshardAfterForward = d.ReshardAfterForward
	c := j.change("prefetch one unit and reshard after forward", to)
	if len(c.Keys) == 0 {
		return nil
	}
	return []Change{c}
}

func (j Job) moreSharding() []Change {
	s, err := parallel.ParseStrategy(j.Config.Parallel.Strategy)
	if err != nil || j.Ranks == 1 {
		return nil
	}
	var out []Change
	names := parallel.StrategyNames()
	for _, name := range names[slices.Index(names, s.Name)+1:] {
		if to, err := parallel.ParseStrategy(name); err == nil && !to.Replicas {
			out = append(out, j.change(fmt.Sprintf("parallel.strategy %s -> %s", s.Name, name), j.withStrategy(name)))
		}
	}
	return out
}

// recomputeLevels are ordered by FLOPs, the cheapest first.
var recomputeLevels = []struct {
	what     string
	keep     train.RecomputeKeep
	segments train.SegmentCount
	store    train.RecomputeStore // empty: unchanged
}{
	{"recompute every layer except matrix products", "products", 0, ""},
	{"recompute every layer", "nothing", 0, ""},
	{"recompute sqrt(n) segments and every layer in them", "nothing", train.SqrtSegments, ""},
	{"recompute every layer, with inputs on disk", "nothing", 0, "disk"},
}

const wholeLayers = 1

// moreRecompute returns the levels above the job's.
func (j Job) moreRecompute() []Change {
	var out []Change
	for i, d := range recomputeLevels {
		if c := j.change(d.what, j.withRecompute(i)); len(c.Keys) > 0 && !(i < wholeLayers && j.recomputes()) {
			out = append(out, c)
		}
	}
	return out
}

// recomputes reports whether layers are recomputed from the first step.
func (j Job) recomputes() bool {
	return j.Config.Recompute.Enabled && j.Config.Recompute.MemoryThreshold == 0
}

// withRecompute returns the job with a level of recomputation; the store stays unless the level sets it.
func (j Job) withRecompute(degree int) Job {
	r, d := &j.Config.Recompute, recomputeLevels[degree]
	r.Enabled, r.EveryNLayers, r.MemoryThreshold = true, 1, 0
	r.Segments, r.Nested = d.segments, d.segments != 0
	if r.Part != "" {
		r.Part = "layer"
	}
	if d.store != "" {
		r.Store = d.store
	}
	if r.Keep != "" || d.keep != "nothing" {
		r.Keep = d.keep
	}
	return j
}

// moreOffload offloads state to the host of a device with its own memory, or else to files.
func (j Job) moreOffload() []Change {
	s, err := parallel.ParseStrategy(j.Config.Parallel.Strategy)
	if err != nil {
		return nil
	}
	to, where, target := j, parallel.OffloadNVMe, "to disk"
	if j.SeparateMemory {
		where, target = parallel.OffloadCPU, "to the host"
	}
	to.Config.Offload.Optimizer.Device = where
	out := []Change{j.change("offload optimizer state "+target, to)}
	what := "offload optimizer state and parameters " + target
	if !s.Params {
		to = to.withStrategy("full_shard")
		what += " under full_shard"
	}
	to.Config.Offload.Params.Device = where
	out = append(out, j.change(what, to))
	return slices.DeleteFunc(out, func(c Change) bool { return len(c.Keys) == 0 })
}

func (j Job) lowerPrecision() []Change {
	p, err := j.Config.Precision.Types()
	if err != nil || p.Param != tensor.F32 {
		return nil
	}
	to := j
	to.Config.Precision.ParamDType = tensor.BF16.String()
	c := j.change("param_dtype float32 -> bfloat16", to)
	c.ChangesResult = true
	return []Change{c}
}

// Effect describes what a change saves and costs compared with plan p.
func (c Change) Effect(p Plan) string {
	result := "same result"
	if c.ChangesResult {
		result = "different result"
	}
	parts := []string{result, device.Bytes(c.Plan.Memory.PeakTotal - p.Memory.PeakTotal).Binary()}
	if more := c.Plan.HostBytes() - p.HostBytes(); more > 0 {
		parts = append(parts, device.Bytes(more).Binary()+" on the host")
	}
	if more := c.Plan.Memory.Live[tensor.Offloaded] - p.Memory.Live[tensor.Offloaded]; more > 0 {
		parts = append(parts, device.Bytes(more).Binary()+" on disk, read and written each step")
	}
	if x := c.Plan.Executed/p.Executed - 1; x > 0.005 {
		parts = append(parts, fmt.Sprintf("FLOPs +%.0f%%", 100*x))
	}
	if was, now := p.SentBytes(), c.Plan.SentBytes(); was > 0 && float64(now) > 1.01*float64(was) {
		parts = append(parts, fmt.Sprintf("sends %.2g times the bytes", float64(now)/float64(was)))
	}
	return strings.Join(parts, ", ")
}
