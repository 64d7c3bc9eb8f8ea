package planner

import (
	"context"
	"fmt"
	"slices"

	"trireme/device"
	"trireme/parallel"
)

// Advice recommends a way to run a job within a memory limit.
type Advice struct {
	Strategy  string // empty if nothing fits
	Recompute bool   // every layer, unlike the job
	Batch     Batch  // of the plan
	Largest   Batch  // that fits
	Plan      Plan
	Why       string
}

// Advise recommends the option that shards the least of those within limit, in bytes of a rank: the job
// as it is, or with smaller micro-batches and more accumulation, or with every layer recomputed.
func (j Job) Advise(ctx context.Context, options []Option, limit int64) (Advice, error) {
	for _, recompute := range []bool{false, true} {
		if recompute {
			if j.recomputes() {
				break
			}
			j = j.withRecompute(wholeLayers)
			var names []string
			for _, o := range options {
				names = append(names, o.Strategy)
			}
			var err error
			if options, err = j.Compare(ctx, names, limit); err != nil {
				return Advice{}, err
			}
		}
		a, err := j.advise(ctx, options, limit)
		if err != nil || a.Strategy != "" {
			a.Recompute = recompute
			return a, err
		}
	}
	a := Advice{Why: fmt.Sprintf("no strategy fits %v per rank, even with micro-batches of one row and every layer recomputed", device.Bytes(limit))}
	last := slices.MaxFunc(options, func(a, b Option) int { return rank(a) - rank(b) })
	n, err := j.withStrategy(last.Strategy).withBatch(Batch{1, 1, j.Ranks}).minRanks(ctx, limit)
	if err == nil && n > 0 {
		a.Why += fmt.Sprintf("; on %d ranks %s fits", n, last.Strategy)
	}
	return a, err
}

// rank orders options by how much they shard; invalid ones are first.
func rank(o Option) int {
	if o.Err != nil {
		return -1
	}
	return slices.Index(parallel.StrategyNames(), o.Strategy)
}

// advise is Advise without recomputation.
func (j Job) advise(ctx context.Context, options []Option, limit int64) (Advice, error) {
	var all, plain []Option
	for _, o := range options {
		if o.Err == nil {
			all = append(all, o)
		}
		if o.Err == nil && !o.singleReplica() && !o.duplicatesHostState() {
			plain = append(plain, o)
		}
	}
	if len(plain) > 0 {
		all = plain
	}
	slices.SortStableFunc(all, func(a, b Option) int { return rank(a) - rank(b) })
	if i := slices.IndexFunc(all, func(o Option) bool { return o.Fits }); i >= 0 {
		o := all[i]
		a := Advice{Strategy: o.Strategy, Batch: o.Batch, Largest: o.Largest, Plan: o.Plan}
		a.Why = fmt.Sprintf("shards the least of those that fit: %v of %v per rank", device.Bytes(o.Plan.Memory.PeakTotal), device.Bytes(limit))
		if i > 0 {
			a.Why += fmt.Sprintf("; %s needs %s", all[i-1].Strategy, device.Bytes(all[i-1].Plan.Memory.PeakTotal).Decimal())
		}
		return a, nil
	}
	for _, o := range all {
		if o.Largest.Micro == 0 {
			continue
		}
		c, err := firstFit(ctx, j.withStrategy(o.Strategy).smallerMicroBatches(), limit)
		if err != nil {
			return Advice{}, err
		}
		if c == nil {
			continue
		}
		b, err := c.job.Batch()
		return Advice{
			Strategy: o.Strategy, Batch: b, Largest: o.Largest, Plan: c.Plan,
			Why: fmt.Sprintf("shards the least of those that fit with smaller micro-batches: %v of %v per rank", device.Bytes(c.Plan.Memory.PeakTotal), device.Bytes(limit)),
		}, err
	}
	return Advice{}, nil
}

// minRanks doubles the ranks, at constant rows per rank, until the job fits limit; 0 if it never does.
func (j Job) minRanks(ctx context.Context, limit int64) (int, error) {
	b, err := j.Batch()
	if err != nil {
		return 0, err
	}
	const times = 14
	for range times {
		j.Ranks *= 2
		b.Global *= 2
		p, err := j.withBatch(b).Run(ctx, 0)
		if err != nil {
			return 0, err
		}
		if p.Memory.PeakTotal <= limit {
			return j.Ranks, nil
		}
	}
	return 0, nil
}
