package planner

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"trireme/data"
	"trireme/internal/conf"
	"trireme/model"
	"trireme/model/gpt2"
	"trireme/model/llama"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

const tiny = `{"architectures": ["LlamaForCausalLM"], "vocab_size": 61, "hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 4,
	"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 32}`

func job(t testing.TB, ranks int, change func(*train.Config)) Job {
	t.Helper()
	m, err := model.Registry{llama.Family, gpt2.Family}.ParseConfig("config.json", []byte(tiny))
	if err != nil {
		t.Fatal(err)
	}
	j := Job{Config: train.Default(), Model: m, Ranks: ranks, Local: max(1, ranks/2), Positions: 19}
	if change != nil {
		change(&j.Config)
	}
	return j
}

func plan(t testing.TB, j Job) Plan {
	t.Helper()
	p, err := j.Run(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Extrapolating from two short steps equals planning the long one.
func TestMoreMicroBatches(t *testing.T) {
	for _, strategy := range parallel.StrategyNames() {
		for _, invariant := range []bool{true, false} {
			for _, dtype := range []string{"float32", "bfloat16"} {
				for _, accumulation := range []int{steadyMicroBatches, steadyMicroBatches + 1, steadyMicroBatches + 2, 13} {
					j := job(t, 4, func(c *train.Config) {
						c.Parallel.Strategy, c.Parallel.WorldInvariant = strategy, invariant
						c.Precision.ReduceDType = dtype
						c.Training.GradientAccumulationSteps = accumulation
					})
					want, err := j.run(context.Background(), 0, accumulation)
					if err != nil {
						t.Fatal(err)
					}
					got := plan(t, j)
					if math.Abs(got.Executed-want.Executed) < 1 { // sums of float64
						got.Executed = want.Executed
					}
					got.issued, got.repeats, want.issued, want.repeats = nil, 0, nil, 0 // of the simulated micro-batches
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s, invariant %t, %s, %d micro-batches: %+v, whole %+v", strategy, invariant, dtype, accumulation, got, want)
					}
				}
			}
		}
	}
}

// Every rank has the same plan.
func TestRanksAreAlike(t *testing.T) {
	for _, strategy := range parallel.StrategyNames() {
		for _, ranks := range []int{1, 2, 3, 6} {
			j := job(t, ranks, func(c *train.Config) { c.Parallel.Strategy = strategy })
			first := plan(t, j)
			for rank := range ranks {
				p, err := j.Run(context.Background(), rank)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(p, first) {
					t.Errorf("%s: rank %d of %d: %+v, rank 0 %+v", strategy, rank, ranks, p, first)
				}
			}
		}
	}
}

// A step sends what the papers say, in bytes of all parameters (Rajbhandari et al. 2019, section 7): 2 with
// a reduction and one all-gather, 3 with two all-gathers. The last unit is gathered once.
func TestVolume(t *testing.T) {
	const ranks = 4
	for strategy, want := range map[string]map[string]float64{
		"no_shard":      {"reduce_scatter": 1, "all_gather": 1},
		"zero_1":        {"reduce_scatter": 1, "all_gather": 1},
		"shard_grad_op": {"reduce_scatter": 1, "all_gather": 1},
		"full_shard":    {"reduce_scatter": 1, "all_gather": 2},
		"hybrid_shard":  {"reduce_scatter": 1, "all_gather": 2},
	} {
		j := job(t, ranks, func(c *train.Config) { c.Parallel.Strategy = strategy })
		p := plan(t, j)
		padded := 0.0
		for _, n := range []int{61 * 24, 24 + 61*24} { // embedding, head with its norm
			padded += float64((n + 255) / 256 * 256)
		}
		layer := 2*24 + 24*(6+2*2)*4 + 24*24 + 3*24*37
		padded += 4 * float64((layer+255)/256*256)
		last := float64((24+61*24+255)/256*256) * 4
		for op, times := range want {
			bytes := 0.0
			for _, s := range p.Sent {
				if s.Op == op {
					bytes += float64(s.Bytes)
				}
			}
			whole := times * padded * 4
			if strategy == "full_shard" || strategy == "hybrid_shard" {
				if op == "all_gather" {
					whole -= last
				}
			}
			expect := whole * (ranks - 1) / ranks
			if strategy == "hybrid_shard" && op == "all_gather" { // half of the ranks share, and replicas complete their shards
				expect = whole/2 + padded*4/4
			}
			if bytes != expect {
				t.Errorf("%s sends %v bytes by %s, want %v", strategy, bytes, op, expect)
			}
		}
	}
}

// Without world_invariant, a rank of hybrid sharding reduce-scatters within its shard group and all-reduces
// with its replica: 2(n-1)/n of the bytes for n ranks.
func TestVolumeOfReplicas(t *testing.T) {
	for ranks, replicas := range map[int]float64{4: 2, 8: 4} {
		j := job(t, ranks, func(c *train.Config) {
			c.Parallel.Strategy, c.Parallel.WorldInvariant, c.Parallel.Mesh.Shard = "hybrid_shard", false, 2
		})
		layer := 2*24 + 24*(6+2*2)*4 + 24*24 + 3*24*37
		padded := 0.0
		for _, n := range []int{61 * 24, layer, layer, layer, layer, 24 + 61*24} {
			padded += float64((n + 64*ranks - 1) / (64 * ranks) * 64 * ranks)
		}
		got := map[string]float64{}
		for _, s := range plan(t, j).Sent {
			if s.Op != "all_gather" && s.Group != "world" {
				got[s.Op+" "+s.Group] += float64(s.Bytes)
			}
		}
		want := map[string]float64{"reduce_scatter shard": padded * 4 / 2, "all_reduce replicate": 2 * (replicas - 1) / replicas * padded * 4 / 2}
		if !maps.Equal(got, want) {
			t.Errorf("%d ranks send %v, want %v", ranks, got, want)
		}
	}
}

// Matrix products are 6 FLOPs per parameter and token. Attention is 14 of all pairs of positions where 12
// of visible pairs count, since scores are recomputed. Recomputation adds the forward pass of the layers
// except the last product.
func TestWork(t *testing.T) {
	j := job(t, 2, func(c *train.Config) { c.Training.MicroBatchSize, c.Training.GradientAccumulationSteps = 3, 2 })
	p := plan(t, j)
	tokens := 3.0 * 2 * float64(j.Positions)
	square := 4 * 24 * float64(j.Positions) * tokens // layers x heads x E x T, of all rows
	norms := 24.0 * 9
	multiplied := float64(p.Parameters) - 61*24 - norms
	if want := 6*multiplied*tokens + 14*square; p.Executed != want {
		t.Errorf("%v operations are made, want %v", p.Executed, want)
	}
	seen := float64(j.Positions+1) / 2 / float64(j.Positions)
	if want := 6*(multiplied+norms)*tokens + 12*square*seen; p.FLOPs != want {
		t.Errorf("%v are counted, want %v", p.FLOPs, want)
	}
	j.Config.Recompute.Enabled = true
	if got, want := plan(t, j).Executed-p.Executed, 2*(multiplied-61*24-4*24*37)*tokens+4*square; got != want {
		t.Errorf("recomputation makes %v more, want %v", got, want)
	}
}

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

// FLOPs for MFU are no more than executed ones, and not much less, with any parameters frozen.
func TestFLOPsAreExecuted(t *testing.T) {
	for _, freeze := range [][]string{nil, {"model.embed_tokens*", "model.layers.0*"}, {"model.layers*"}, {"model.embed_tokens*", "model.layers*"}, {"model.layers.1*", "lm_head*"}} {
		p := plan(t, job(t, 1, func(c *train.Config) { c.Model.Freeze = freeze }))
		if share := p.FLOPs / p.Executed; share > 1 || share < 0.75 {
			t.Errorf("frozen %v: %v FLOPs are counted, %v executed", freeze, p.FLOPs, p.Executed)
		}
	}
}

// The peak of a micro-batch of tokens is that of the same number of full rows; fewer tokens are a change.
func TestMicroBatchTokens(t *testing.T) {
	rows := job(t, 2, func(c *train.Config) { c.Training.MicroBatchSize, c.Training.GlobalBatchSize = 4, 16 })
	tokens := job(t, 2, func(c *train.Config) { c.Training.MicroBatchTokens, c.Training.GlobalBatchSize = 4*19, 16 })
	a, b := plan(t, rows), plan(t, tokens)
	for _, c := range []tensor.Category{tensor.Activations, tensor.Logits, tensor.Grads} {
		if a.Memory.Peak[c] != b.Memory.Peak[c] {
			t.Errorf("%v: %d bytes by tokens, %d by rows", c, b.Memory.Peak[c], a.Memory.Peak[c])
		}
	}
	if a.FLOPs != b.FLOPs {
		t.Errorf("%v FLOPs by tokens, %v by rows", b.FLOPs, a.FLOPs)
	}
	whatever := tokens // the maximum number of rows is used, not micro_batch_size
	whatever.Config.Training.MicroBatchSize = 16
	if c := plan(t, whatever); c.Memory != b.Memory {
		t.Errorf("%v bytes by tokens, %v with micro_batch_size 16", b.Memory, c.Memory)
	}
	usual := tokens
	usual.RowTokens = 19.0 / 2
	if u := plan(t, usual); u.Memory.PeakTotal > b.Memory.PeakTotal || u.FLOPs >= b.FLOPs {
		t.Errorf("rows of half the length take %d bytes and %v FLOPs, full ones %d and %v", u.Memory.PeakTotal, u.FLOPs, b.Memory.PeakTotal, b.FLOPs)
	}
	short := rows
	short.RowTokens = usual.RowTokens
	if u := plan(t, short); u.Memory.Peak[tensor.Activations] > a.Memory.Peak[tensor.Activations]*6/10 || u.Executed > 0.6*a.Executed {
		t.Errorf("rows of half the length take %d bytes of activations and %v FLOPs, full ones %d and %v", u.Memory.Peak[tensor.Activations], u.Executed, a.Memory.Peak[tensor.Activations], a.Executed)
	}
	changes := tokens.smallerMicroBatches()
	if len(changes) == 0 || changes[0].What != "micro_batch_tokens 76 -> 38" || !slices.Equal(changes[0].Keys, []string{"training.micro_batch_tokens=38"}) {
		t.Errorf("%+v", changes)
	}
	largest, err := tokens.Largest(context.Background(), b.Memory.PeakTotal)
	if err != nil || largest.Micro < 4 {
		t.Errorf("%+v, %v", largest, err)
	}
}

// Rows returns the fields of micro-batches without data.
func TestRows(t *testing.T) {
	c := train.Default()
	if got := Rows(model.Info{}, c); got != (data.Info{}) {
		t.Errorf("text: %+v", got)
	}
	c.Data.DocumentMask = true
	if got := Rows(model.Info{}, c); !got.Docs {
		t.Errorf("documents apart: %+v", got)
	}
	if got := Rows(model.Info{Task: model.Classify}, train.Default()); got.Docs || !got.Classes {
		t.Errorf("classes: %+v", got)
	}
}

// A mesh with replicas applies only to strategies with replicas.
func TestMesh(t *testing.T) {
	j := job(t, 8, func(c *train.Config) {
		c.Parallel.Strategy, c.Parallel.Mesh.Replicate, c.Parallel.Mesh.Shard = "hybrid_shard", 4, 2
	})
	options, err := j.Compare(context.Background(), parallel.StrategyNames(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		want := [2]int{1, 8}
		if strings.HasPrefix(o.Strategy, "hybrid") {
			want = [2]int{4, 2}
		}
		if o.Err != nil || [2]int{o.Replicate, o.Shard} != want {
			t.Errorf("%s: %d x %d, %v; want %v", o.Strategy, o.Replicate, o.Shard, o.Err, want)
		}
	}
	if j = job(t, 3, func(c *train.Config) { c.Parallel.Mesh.Shard = 3 }); plan(t, j.withStrategy("hybrid_shard")).Parameters == 0 {
		t.Error("there is no plan")
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
