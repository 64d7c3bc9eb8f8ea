package train_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/data"
	"trireme/device"
	"trireme/tensor"
	"trireme/train"
)

// deep are networks with enough layers for segments, with all random operations on.
var deep = map[string]string{
	"llama": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 37, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 5,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "initializer_range": 0.2}`,
	"qwen3": `{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 37, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 5,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 16, "attention_dropout": 0.2, "tie_word_embeddings": true}`,
	"gpt2": `{"architectures": ["GPT2LMHeadModel"], "vocab_size": 37, "n_embd": 16, "n_layer": 5, "n_head": 4, "n_positions": 16,
		"resid_pdrop": 0.2, "embd_pdrop": 0.1, "attn_pdrop": 0.2}`,
	"bert": `{"architectures": ["BertForSequenceClassification"], "vocab_size": 37, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 5,
		"num_attention_heads": 4, "max_position_embeddings": 16, "num_labels": 3, "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.1}`,
	"free transformer": `{"architectures": ["FreeTransformerForCausalLM"], "vocab_size": 37, "hidden_size": 16, "intermediate_size": 20,
		"num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "latent_bits": 5,
		"free_bits": 0.1, "initializer_range": 0.2}`,
}

var recomputations = map[string]train.Recompute{
	"every layer":       {Enabled: true},
	"every second":      {Enabled: true, EveryNLayers: 2},
	"attention":         {Enabled: true, Part: "attention"},
	"mlp":               {Enabled: true, Part: "mlp"},
	"halves":            {Enabled: true, Part: "attention_and_mlp"},
	"all but attention": {Enabled: true, Keep: "attention"},
	"all but products":  {Enabled: true, Keep: "products"},
	"segments":          {Enabled: true, Segments: train.SqrtSegments},
	"nested":            {Enabled: true, Segments: 3, Nested: true},
	"nested halves":     {Enabled: true, Segments: 2, Nested: true, Part: "attention_and_mlp", Keep: "products", EveryNLayers: 2},
	"disk":              {Enabled: true, Store: "disk"},
	"segments on disk":  {Enabled: true, Segments: 4, Store: "disk"},
}

type runBits struct {
	steps  []string
	params map[string][]float32
	peak   int64 // activations of rank 0
}

func trained(t *testing.T, network string, cfg train.Config, world int) *runBits {
	t.Helper()
	out := &runBits{params: map[string][]float32{}}
	var mu sync.Mutex
	collectivetest.Ranks(t, world, func(w collective.World) error { return out.rank(w, network, cfg, &mu) })
	return out
}

func (o *runBits) rank(w collective.World, network string, cfg train.Config, mu *sync.Mutex) (err error) {
	const steps, positions, rows = 3, 11, 2
	ctx := context.Background()
	b, err := device.Open("cpu", device.Options{Reserve: 1 << 30})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	config, err := families.ParseConfig(network, []byte(deep[network]))
	if err != nil {
		return err
	}
	a, err := cfg.Build(b, config, positions, train.Ranks{Ranks: w, Local: max(1, w.Size()/2)}, true)
	if err != nil {
		return err
	}
	defer a.Engine.Close()
	defer func() { err = errors.Join(err, a.Stepper.Close()) }()
	if err := a.Engine.Init(5); err != nil {
		return err
	}
	if err := a.Engine.Refresh(ctx); err != nil {
		return err
	}
	live := b.Meter().Read().LiveTotal
	for step := range steps {
		var micros []data.MicroBatch
		for m := w.Rank(); m < 4; m += w.Size() {
			rng := rand.New(rand.NewPCG(uint64(step), uint64(m)))
			mb := data.UniformMicroBatch(rows, rows*positions, positions, data.Info{Docs: true, Classes: network == "bert"})
			for i := range mb.SampleKeys {
				mb.SampleKeys[i] += int64(step*4+m) * rows
			}
			for i := range mb.TokenKeys {
				mb.TokenKeys[i] += int64(step*4+m) * rows * positions
			}
			for i := range mb.InputIDs {
				mb.InputIDs[i], mb.Targets[i], mb.Docs[i], mb.Positions[i] = rng.Int32N(37), rng.Int32N(37), int32(i%positions/6), int32(i%positions%6)
			}
			for i := range mb.Classes {
				mb.Classes[i] = rng.Int32N(3)
			}
			micros = append(micros, mb)
		}
		if err := a.Stepper.Step(ctx, micros, func(int) float64 { return 1e-2 }); err != nil {
			return err
		}
		if r := a.Stepper.Result(); w.Rank() == 0 {
			o.steps = append(o.steps, fmt.Sprintf("loss %x norm %x applied %t", math.Float64bits(r.Loss), math.Float64bits(r.GradNorm), r.Applied))
		}
	}
	if err := a.Engine.Sync(); err != nil {
		return err
	}
	use := b.Meter().Read()
	if w.Size() == 1 {
		use.LiveTotal -= use.Live[tensor.Grads] // of the last step
	}
	if use.LiveTotal != live {
		return fmt.Errorf("%d bytes more are held after the steps", use.LiveTotal-live)
	}
	mu.Lock()
	defer mu.Unlock()
	if w.Rank() == 0 {
		o.peak = use.Peak[tensor.Activations]
	}
	for _, p := range a.Engine.OwnedParams() {
		all := o.params[p.Name]
		if all == nil {
			all = make([]float32, p.Shape.Elems())
			o.params[p.Name] = all
		}
		for run := range p.Runs() {
			copy(all[run.Y:], elements(p.Data)[run.X:run.X+run.N])
		}
	}
	return nil
}

func (o *runBits) differs(from *runBits) string {
	if !slices.Equal(o.steps, from.steps) {
		return fmt.Sprintf("%v, not %v", o.steps, from.steps)
	}
	for name, want := range from.params {
		if !slices.EqualFunc(o.params[name], want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			return "parameter " + name
		}
	}
	return ""
}

// Recomputation gives the same bits in every family, world and type, with dropout and latent bits on. FULL_MATRIX=1 runs
// all combinations; else each pair of these occurs.
func TestRecomputationLeavesBits(t *testing.T) {
	strategies := map[int]string{1: "no_shard", 2: "shard_grad_op", 4: "full_shard"}
	for i, network := range slices.Sorted(maps.Keys(deep)) {
		if testing.Short() && network != "llama" { // families differ in what a goroutine computes
			continue
		}
		for d, dtype := range []string{"float32", "bfloat16"} {
			cfg := train.Default()
			cfg.Precision.ParamDType, cfg.OutputDir = dtype, t.TempDir()
			run := func(r train.Recompute, world int) *runBits {
				c := cfg
				c.Recompute, c.Parallel.Strategy, c.Training.GradientAccumulationSteps = r, strategies[world], 4/world
				return trained(t, network, c, world)
			}
			want := run(train.Recompute{}, 1)
			if len(want.steps) != 3 || strings.Contains(want.steps[2], "false") {
				t.Fatalf("%s: %v", network, want.steps)
			}
			for k, name := range slices.Sorted(maps.Keys(recomputations)) {
				r := recomputations[name]
				for j, world := range slices.Sorted(maps.Keys(strategies)) {
					if !crossAll() && ((i+k)%2 != d || (i+k)%3 != j) {
						continue
					}
					got := run(r, world)
					if diff := got.differs(want); diff != "" {
						t.Errorf("%s in %s, %s, on %d: %s", network, dtype, name, world, diff)
					}
					if strings.HasPrefix(name, "every") && got.peak >= want.peak {
						t.Errorf("%s in %s, %s, on %d: %d bytes of activations, %d where all are kept", network, dtype, name, world, got.peak, want.peak)
					}
				}
			}
		}
	}
}
