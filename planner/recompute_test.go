package planner_test

import (
	"context"
	"fmt"
	"testing"

	"trireme/planner"
	"trireme/tensor"
	"trireme/train"
)

// stack plans a Llama with a number of layers and returns its activation peak in bytes and its FLOPs.
func stack(t *testing.T, layers int, r train.Recompute) (activations, executed float64) {
	t.Helper()
	c, err := families.ParseConfig("stack", fmt.Appendf(nil, `{"architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 1024,
		"intermediate_size": 2816, "num_hidden_layers": %d, "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 2048}`, layers))
	if err != nil {
		t.Fatal(err)
	}
	j := planner.Job{Config: train.Default(), Model: c, Ranks: 1, Positions: 2048}
	j.Config.Recompute = r
	p, err := j.Run(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return float64(p.Memory.Peak[tensor.Activations]), p.Executed
}

// Activation peak and FLOPs of each recomputation setting; docs/memory.md has the table.
func TestRecomputationTrades(t *testing.T) {
	const layers = 16
	whole, once := stack(t, layers, train.Recompute{})
	for _, v := range []struct {
		name         string
		r            train.Recompute
		memory, cost float64 // maximum fraction of a run without recomputation
	}{
		{"every layer", train.Recompute{Enabled: true}, 0.18, 1.24},
		{"every second layer", train.Recompute{Enabled: true, EveryNLayers: 2}, 0.57, 1.12},
		{"attention", train.Recompute{Enabled: true, Part: "attention"}, 0.67, 1.13},
		{"mlp", train.Recompute{Enabled: true, Part: "mlp"}, 0.57, 1.10},
		{"halves", train.Recompute{Enabled: true, Part: "attention_and_mlp"}, 0.24, 1.23},
		{"all but attention", train.Recompute{Enabled: true, Keep: "attention"}, 0.26, 1.17},
		{"all but products", train.Recompute{Enabled: true, Keep: "products"}, 0.93, 1.08},
		{"segments", train.Recompute{Enabled: true, Segments: train.SqrtSegments}, 0.30, 1.21},
		{"nested", train.Recompute{Enabled: true, Segments: train.SqrtSegments, Nested: true}, 0.14, 1.41},
		{"disk", train.Recompute{Enabled: true, Store: "disk"}, 0.12, 1.24},
	} {
		memory, cost := stack(t, layers, v.r)
		t.Logf("%-20s activations %4.0f MiB (%.3f), arithmetic %.3f", v.name, memory/(1<<20), memory/whole, cost/once)
		if memory/whole > v.memory || memory/whole < v.memory-0.02 || cost/once > v.cost || cost/once < v.cost-0.02 {
			t.Errorf("%s: activations %.3f and arithmetic %.3f of those without, %.2f and %.2f were expected", v.name, memory/whole, cost/once, v.memory, v.cost)
		}
	}
}

// Activations grow as the square root of the layers with sqrt segments, linearly without, and not at all on
// disk.
func TestSqrtSegments(t *testing.T) {
	growth := func(r train.Recompute) float64 {
		var a [3]float64
		for i, layers := range []int{4, 16, 64} {
			a[i], _ = stack(t, layers, r)
			if i > 0 && r.Segments != 0 && a[i]/a[i-1] > 2 {
				t.Errorf("%+v: 4 times the layers have %.3f times the activations, the root is 2", r, a[i]/a[i-1])
			}
		}
		// Differences cancel what does not depend on the layers.
		if a[0] == a[1] {
			return (a[2] - a[1]) / a[1]
		}
		return (a[2] - a[1]) / (a[1] - a[0])
	}
	for _, v := range []struct {
		name string
		r    train.Recompute
		want float64
	}{
		{"all kept", train.Recompute{}, 4},
		{"every layer", train.Recompute{Enabled: true}, 4},
		{"segments", train.Recompute{Enabled: true, Segments: train.SqrtSegments}, 2},
		{"nested", train.Recompute{Enabled: true, Segments: train.SqrtSegments, Nested: true}, 2},
		{"disk", train.Recompute{Enabled: true, Store: "disk"}, 0},
	} {
		got := growth(v.r)
		t.Logf("%s: from 16 to 64 layers activations grow %.3f times the growth from 4 to 16", v.name, got)
		if got < v.want-0.02 || got > v.want+0.02 {
			t.Errorf("%s: from 16 to 64 layers activations grow %.3f times the growth from 4 to 16, want %v", v.name, got, v.want)
		}
	}
}
