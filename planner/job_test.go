package planner

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"trireme/data"
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
