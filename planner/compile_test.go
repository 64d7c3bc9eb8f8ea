package planner_test

import (
	"context"
	"fmt"
	"testing"

	"trireme/device"
	"trireme/internal/pjrt/pjrttest"
	"trireme/parallel"
	"trireme/planner"
	"trireme/train"
)

// compiled compiles a job for H200s that this machine need not have.
func compiled(t *testing.T, j planner.Job) []planner.Program {
	t.Helper()
	plugin, cudaDir := pjrttest.CUDA(t)
	target, err := device.OpenTarget(device.CompilerOptions{Target: "h200", Ranks: j.Ranks, Plugin: plugin, CUDADir: cudaDir})
	if err != nil {
		t.Fatal(err)
	}
	ps, err := j.Compile(context.Background(), target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		t.Logf("%s: %d operations compiled in %.1f s, peak %d, hidden %.3f of %d collectives", p.Name, p.Operations, p.Seconds, p.Peak, p.Hidden(), len(p.Collectives))
	}
	return ps
}

// Every family compiles for one and for eight GPUs.
func TestCompiledFamilies(t *testing.T) {
	for name := range networks {
		for _, ranks := range []int{1, 8} {
			for _, dtype := range []string{"bfloat16", "float32"} {
				if dtype == "float32" && name != "llama" {
					continue
				}
				t.Run(fmt.Sprintf("%s on %d in %s", name, ranks, dtype), func(t *testing.T) {
					j := planner.Job{Config: train.Default(), Model: network(t, name), Ranks: ranks, Positions: 32, Rows: rowsOf(name, false)}
					j.Config.Precision.ParamDType, j.Config.Training.MicroBatchSize = dtype, 2
					if ps := compiled(t, j); len(ps) != 1 || ps[0].Peak < ps[0].Arguments || ps[0].Arguments == 0 {
						t.Errorf("%+v", ps)
					}
				})
			}
		}
	}
}

// overlapped is a Llama of 8 equal layers. A GPU takes longer to compute a layer than to gather it.
const overlapped = `{"architectures": ["LlamaForCausalLM"], "vocab_size": 4096, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8,
	"num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 2048}`

func overlappedJob(t *testing.T, ranks int, strategy string) planner.Job {
	t.Helper()
	config, err := families.ParseConfig("overlapped", []byte(overlapped))
	if err != nil {
		t.Fatal(err)
	}
	j := planner.Job{Config: train.Default(), Model: config, Ranks: ranks, Positions: 2048}
	j.Config.Precision.ParamDType, j.Config.Parallel.Strategy = "bfloat16", strategy
	return j
}

// The all-gathers and reduce-scatters of layers are hidden behind products: all in the loops over the
// layers, and most in the step, whose first all-gather and last reduce-scatter have nothing beside them.
func TestCompiledOverlap(t *testing.T) {
	p := compiled(t, overlappedJob(t, 8, "full_shard"))[0]
	seen := map[string]bool{}
	for _, c := range p.Collectives {
		if c.Loop {
			if seen[c.Op] = true; !c.Hidden() {
				t.Errorf("exposed in a loop: %+v", c)
			}
		}
	}
	if !seen["all-gather"] || !seen["reduce-scatter"] {
		t.Errorf("no loop over layers has both collectives: %+v", p.Collectives)
	}
	if got := p.Hidden(); got < 0.85 {
		t.Errorf("%.3f of the communication is hidden: %+v", got, p.Collectives)
	}
}

// Compiled memory falls with sharding and with recomputation.
func TestCompiledMemoryFalls(t *testing.T) {
	before := int64(1) << 62
	for _, strategy := range []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "full_shard, recomputed"} {
		name := strategy
		if name == "full_shard, recomputed" {
			name = "full_shard"
		}
		s, err := parallel.ParseStrategy(name)
		if err != nil {
			t.Fatal(err)
		}
		j := overlappedJob(t, 8, s.Name)
		j.Config.Recompute.Enabled = name != strategy
		plan, err := j.Run(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		got := compiled(t, j)[0].Peak
		t.Logf("%s: planned %d, compiled %d, %+.1f%%", strategy, plan.Memory.PeakTotal, got, 100*(float64(got)/float64(plan.Memory.PeakTotal)-1))
		if got >= before {
			t.Errorf("%s: a peak of %d, before %d", strategy, got, before)
		}
		before = got
	}
}
