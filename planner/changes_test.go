package planner

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"trireme/internal/conf"
	"trireme/parallel"
	"trireme/train"
)

// The search finds what an exhaustive one finds.
func TestLargest(t *testing.T) {
	ctx := context.Background()
	for _, global := range []int{0, 24} {
		j := job(t, 2, func(c *train.Config) { c.Training.GlobalBatchSize = global })
		need := func(b Batch) int64 { return plan(t, j.withBatch(b)).Memory.PeakTotal }
		ways := []Batch{}
		for micro := 1; micro <= 12; micro++ {
			switch {
			case global == 0:
				ways = append(ways, Batch{micro, 1, 2 * micro})
			case 12%micro == 0:
				ways = append(ways, Batch{micro, 12 / micro, 24})
			}
		}
		for i, b := range ways {
			for _, limit := range []int64{need(b), need(b) - 1} {
				want := Batch{}
				for _, w := range ways[:i+1] {
					if need(w) <= limit {
						want = w
					}
				}
				if got, err := j.Largest(ctx, limit); err != nil || got != want && !(limit == need(b) && i == len(ways)-1) {
					t.Errorf("in %d bytes: %v, %v; want %v", limit, got, err, want)
				}
			}
		}
	}
	if b, err := job(t, 1, nil).Largest(ctx, math.MaxInt64); err != nil || b.Micro != maxTokens/19 {
		t.Errorf("without a limit: %v, %v", b, err)
	}
}

// The search ends with the right answer for any increasing need.
func TestFitting(t *testing.T) {
	for _, need := range []func(i int) int64{
		func(i int) int64 { return 5 }, func(i int) int64 { return int64(i) }, func(i int) int64 { return int64(i * i) },
		func(i int) int64 { return max(100, int64(7*i-300)) }, func(i int) int64 { return int64(math.Sqrt(float64(i)) * 9) },
	} {
		for _, n := range []int{1, 2, 3, 10, 1000} {
			for _, limit := range []int64{-1, 0, 5, 6, 99, 100, 101, 250, 5000, 1 << 40} {
				want, tries := 0, 0
				for want < n && need(want) <= limit {
					want++
				}
				got, err := countFitting(n, limit, func(i int) int64 { return int64(i + 1) }, func(i int) (int64, error) { tries++; return need(i), nil })
				if err != nil || got != want || tries > 24 {
					t.Errorf("%d sizes, limit %d: %d fit, want %d; %d tries, %v", n, limit, got, want, tries, err)
				}
			}
		}
	}
}

// Each change fits and is the smallest that does; if none fits alone, a combination is found.
func TestChanges(t *testing.T) {
	ctx := context.Background()
	j := job(t, 4, func(c *train.Config) { c.Parallel.Strategy, c.Training.MicroBatchSize = "no_shard", 8 })
	p := plan(t, j)
	lists, together := map[string]bool{}, 0
	for part := 0.95; part > 0.05; part -= 0.1 {
		limit := int64(part * float64(p.Memory.PeakTotal))
		changes, err := j.Changes(ctx, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if c.Plan.Memory.PeakTotal > limit {
				t.Errorf("%s needs %d, the limit is %d", c.What, c.Plan.Memory.PeakTotal, limit)
			}
			if got := plan(t, c.job); !reflect.DeepEqual(got, c.Plan) {
				t.Errorf("the plan of %s differs from its job", c.What)
			}
			lists[fmt.Sprint(len(changes), len(c.Keys))] = true
		}
		if len(changes) == 1 && strings.Contains(changes[0].What, ", and ") {
			sparing(t, j, changes[0], limit)
			together++
		}
		if len(changes) == 0 {
			c, fits, err := apply(ctx, j, []changeKind{Job.smallerMicroBatches, Job.moreSharding, Job.moreRecompute, Job.moreOffload, Job.lowerPrecision}, []int{3, 3, 1, 2, 1}, limit)
			if err != nil || fits {
				t.Errorf("no change was found for %d bytes, but %s fits: %v", limit, c.What, err)
			}
		}
	}
	if len(lists) < 3 || together == 0 {
		t.Errorf("all changes are equal: %v", lists)
	}
	if changes, err := j.Changes(ctx, 1); err != nil || changes != nil {
		t.Errorf("one byte suffices for %v, %v", changes, err)
	}
}

// Only a job that keeps gathered units gets the advice to reshard.
func TestLessIsGathered(t *testing.T) {
	limit := plan(t, job(t, 4, func(c *train.Config) { c.Parallel.Strategy = "full_shard" })).Memory.PeakTotal
	for _, v := range []struct {
		keys []string
		set  func(*parallel.Config)
	}{
		{[]string{"parallel.reshard_after_forward=true"}, func(c *parallel.Config) { c.ReshardAfterForward = parallel.ReshardNever }},
		{[]string{"parallel.prefetch_units=1"}, func(c *parallel.Config) { c.PrefetchUnits = 6 }},
	} {
		changes, err := job(t, 4, func(c *train.Config) { c.Parallel.Strategy = "full_shard"; v.set(&c.Parallel) }).Changes(context.Background(), limit)
		if err != nil || len(changes) == 0 || !slices.ContainsFunc(changes, func(c Change) bool { return slices.Equal(c.Keys, v.keys) }) {
			t.Errorf("%v: %+v, %v", v.keys, changes, err)
		}
	}
	for _, c := range job(t, 4, nil).lessGathered() {
		t.Errorf("a job that keeps nothing gets %v", c.Keys)
	}
}

// sparing checks that a combined change contains no degree more than it needs.
func sparing(t *testing.T, j Job, c Change, limit int64) {
	t.Helper()
	kinds := []changeKind{Job.smallerMicroBatches, Job.moreSharding, Job.moreRecompute, Job.moreOffload, Job.lowerPrecision}
	var most []int
	for _, k := range kinds {
		most = append(most, len(k(j)))
	}
	how := make([]int, len(kinds))
	for { // all combinations, as the digits of a number
		i := 0
		for ; i < len(how) && how[i] == most[i]; i++ {
			how[i] = 0
		}
		if i == len(how) {
			t.Fatalf("%s is no combination", c.What)
		}
		how[i]++
		got, _, err := apply(t.Context(), j, kinds, how, limit)
		if err != nil {
			t.Fatal(err)
		}
		if got.What == c.What {
			break
		}
	}
	for i := range how {
		if how[i] == 0 {
			continue
		}
		how[i]--
		if less, fits, err := apply(t.Context(), j, kinds, how, limit); err != nil || fits {
			t.Errorf("%s: %s is enough: %v", c.What, less.What, err)
		}
		how[i]++
	}
}

// Advise picks the least sharding that fits, else smaller micro-batches, else recomputation.
func TestAdvise(t *testing.T) {
	ctx := context.Background()
	j := job(t, 4, func(c *train.Config) { c.Training.MicroBatchSize = 2 })
	options, err := j.Compare(ctx, parallel.StrategyNames(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var needs []int64
	for _, o := range options {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		needs = append(needs, o.Plan.Memory.PeakTotal)
	}
	advise := func(limit int64) Advice {
		options, err := j.Compare(ctx, parallel.StrategyNames(), limit)
		if err != nil {
			t.Fatal(err)
		}
		a, err := j.Advise(ctx, options, limit)
		if err != nil {
			t.Fatal(err)
		}
		if a.Strategy != "" && a.Plan.Memory.PeakTotal > limit {
			t.Errorf("%+v does not fit %d", a, limit)
		}
		return a
	}
	for limit := slices.Max(needs); limit > 0; limit -= limit / 8 {
		a := advise(limit)
		want := slices.IndexFunc(needs, func(n int64) bool { return n <= limit })
		switch {
		case want >= 0:
			if a.Strategy != parallel.StrategyNames()[want] || a.Recompute || a.Batch.Micro != 2 {
				t.Errorf("in %d: %+v, want %s", limit, a, parallel.StrategyNames()[want])
			}
		case a.Strategy != "" && !a.Recompute && (a.Batch != Batch{1, 2, 8}):
			t.Errorf("in %d: %+v", limit, a)
		}
		if limit < 8 {
			break
		}
	}
	if a := advise(1000); a.Strategy != "" || a.Why == "" {
		t.Errorf("in 1000 bytes: %+v", a)
	}
}

// The keys of a change reproduce its plan.
func TestKeys(t *testing.T) {
	ctx := context.Background()
	for _, r := range []train.Recompute{
		{EveryNLayers: 1}, {Enabled: true, EveryNLayers: 1}, {Enabled: true, EveryNLayers: 2}, {Enabled: true, EveryNLayers: 1, Part: "mlp"},
		{Enabled: true, EveryNLayers: 1, Keep: "products"}, {Enabled: true, EveryNLayers: 1, MemoryThreshold: 0.5, CheckEveryNSteps: 1},
	} {
		for _, global := range []int{0, 32} {
			j := job(t, 4, func(c *train.Config) {
				c.Model.Config, c.Data.Path = "config.json", "rows.jsonl"
				c.Training.MicroBatchSize, c.Training.GlobalBatchSize = 4, global
				c.Parallel.Strategy, c.Parallel.Mesh.Replicate, c.Recompute = "hybrid_shard_zero2", 2, r
			})
			for _, k := range []changeKind{Job.smallerMicroBatches, Job.moreSharding, Job.moreRecompute, Job.moreOffload, Job.lowerPrecision} {
				for _, c := range k(j) {
					sources := []conf.Source{}
					for _, key := range c.Keys {
						sources = append(sources, conf.Set("--set", key))
					}
					loaded, err := conf.Load(j.Config, sources...)
					if err != nil {
						t.Fatalf("%+v: %s: %v", r, c.What, err)
					}
					said := j
					said.Config = loaded.Value
					got, err := said.Run(ctx, 0)
					if err != nil {
						t.Fatal(err)
					}
					if want := plan(t, c.job); !reflect.DeepEqual(got, want) {
						t.Errorf("%+v: %s: %v is planned as %d, the change as %d bytes", r, c.What, c.Keys, got.Memory.PeakTotal, want.Memory.PeakTotal)
					}
				}
			}
		}
	}
}
