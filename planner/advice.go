package planner

import (
	"context"
	"fmt"
	"slices"

	"trireme/device"
	"trireme/parallel"
)

// Advice is a way to run a job within a limit.
type Advice struct {
	Strategy  string // empty: there is none
	Recompute bool   // every layer, which the job does not
	Batch     Batch  // with which it was planned
	Largest   Batch  // that fits with it
	Plan      Plan
	Why       string
}

// Advise takes of some options the one that divides the least of those that fit a limit (bytes of
// a rank): as they are, or else with smaller micro-batches and more accumulation, or else with
// every layer recomputed.
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
	a := Advice{Why: fmt.Sprintf("none fits %v a rank, not with micro-batches of one row and every layer recomputed either", device.Bytes(limit))}
	last := slices.MaxFunc(options, func(a, b Option) int { return rank(a) - rank(b) })
	n, err := j.withStrategy(last.Strategy).withBatch(Batch{1, 1, j.Ranks}).minRanks(ctx, limit)
	if err == nil && n > 0 {
		a.Why += fmt.Sprintf("; so divided among %d ranks %s does", n, last.Strategy)
	}
	return a, err
}

// rank is an option's place among strategies; those that cannot be come first.
func rank(o Option) int {
	if o.Err != nil {
		return -1
	}
	return slices.Index(parallel.StrategyNames(), o.Strategy)
}

// advise is Advise for a job as it is, or with smaller micro-batches.
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
		a.Why = fmt.Sprintf("divides the least of those that fit: %v of %v a rank", device.Bytes(o.Plan.Memory.PeakTotal), device.Bytes(limit))
		if i > 0 {
			a.Why += fmt.Sprintf("; %s would need %s", all[i-1].Strategy, device.Bytes(all[i-1].Plan.Memory.PeakTotal).Decimal())
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
			Why: fmt.Sprintf("divides the least of those that fit with smaller micro-batches: %v of %v a rank", device.Bytes(c.Plan.Memory.PeakTotal), device.Bytes(limit)),
		}, err
	}
	return Advice{}, nil
}

// minRanks is the smallest number of ranks, the job's doubled some times, with which it fits a
// limit, each with the rows that it has; 0 where none does.
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
