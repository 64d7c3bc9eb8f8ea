package generate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"trireme/collective"
	"trireme/device"
	"trireme/model"
	"trireme/model/freetransformer"
	"trireme/model/gpt2"
	"trireme/model/llama"
	"trireme/nn"
	"trireme/parallel"
	"trireme/tensor"
)

// families are the decoders.
var families = model.Registry{llama.Family, gpt2.Family, freetransformer.Family}

// configs cover grouped heads, a window, normalized heads, learned positions and latent bits.
var configs = map[string]string{
	"llama": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
		"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 20, "initializer_range": 0.3}`,
	"mistral": `{"architectures": ["MistralForCausalLM"], "vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
		"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 20, "sliding_window": 5, "initializer_range": 0.3}`,
	"qwen3": `{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "head_dim": 8,
		"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 20, "initializer_range": 0.3, "tie_word_embeddings": true}`,
	"gpt2": `{"architectures": ["GPT2LMHeadModel"], "vocab_size": 50, "n_embd": 24, "n_layer": 3, "n_head": 6, "n_positions": 20, "initializer_range": 0.3}`,
	"free transformer": `{"architectures": ["FreeTransformerForCausalLM"], "vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 4,
		"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 20, "latent_bits": 5, "initializer_range": 0.3}`,
}

func open(t *testing.T, config string, dt tensor.DType) (tensor.Backend, model.Model) {
	return openOn(t, config, dt, func(b tensor.Backend, w collective.World) (tensor.Backend, collective.World) { return b, w })
}

// openOn opens a model, whose parameters have type dt, on a wrapped backend.
func openOn(t *testing.T, config string, dt tensor.DType, wrap func(tensor.Backend, collective.World) (tensor.Backend, collective.World)) (tensor.Backend, model.Model) {
	t.Helper()
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cpu, err := device.Open("cpu", device.Options{Threads: 2, Reserve: 1 << 28})
	if err != nil {
		t.Fatal(err)
	}
	b, world := wrap(cpu, worlds[0])
	mesh, err := parallel.NewMesh(world, parallel.MeshShape{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	mc, err := families.ParseConfig("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	m, err := mc.Make(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range model.Params(m) {
		p.Frozen = true
	}
	e, err := parallel.New(b, mesh, m.Units(), parallel.Options{Precision: parallel.Precision{Param: dt}, NoMasters: true})
	if err == nil {
		err = e.Init(3)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		cpu.Close()
		worlds[0].Close()
	})
	return b, m
}

// again are the logits after ids, all of them computed at once.
func again(b tensor.Backend, m model.Model, dt tensor.DType, ids []int32, seed uint64) []float32 {
	logits := Pass{Backend: b, Model: m, Param: dt, Seed: seed}.Logits(ids, 0, 0, len(ids))
	out := make([]float32, m.Info().Vocab)
	copy(tensor.AsBytes(out), logits())
	return out
}

// types are those of parameters, activations and the cache, with the largest error of logits.
var types = map[tensor.DType]float64{tensor.F32: 1e-4, tensor.BF16: 0.15}

// Logits with a KV cache equal those of all rows at once. The cache has the type of activations, and is freed.
func TestRowsAreReadOnce(t *testing.T) {
	for name, config := range configs {
		for dt, tol := range types {
			t.Run(fmt.Sprint(name, " in ", dt), func(t *testing.T) {
				b, m := open(t, config, dt)
				before := b.Meter().Read().LiveTotal
				r := newDecoder(b, m, dt, dt, 20, 20, 9)
				info := m.Info()
				rows := 0
				for _, a := range info.Attention {
					if a.Causal {
						rows += 20 * a.Layers
					}
				}
				if got, want := b.Meter().Read().LiveTotal-before, int64(rows*2*info.KVHeads*info.HeadDim*dt.Size()); got < want || got > want+want/4 {
					t.Errorf("the cache has %d bytes, want %d", got, want)
				}
				ids := []int32{7, 3, 49, 0, 7, 12}
				for len(ids) <= 20 {
					got, err := r.logits(ids)
					if err != nil {
						t.Fatal(err)
					}
					want := again(b, m, dt, ids, 9)
					for i := range want {
						if !(math.Abs(float64(got[i]-want[i])) <= tol*(1+math.Abs(float64(want[i])))) {
							t.Fatalf("after %d tokens, token %d: logit %v, computed at once %v", len(ids), i, got[i], want[i])
						}
					}
					ids = append(ids, int32(len(ids)*17%50))
				}
				r.close()
				if live := b.Meter().Read().LiveTotal; live != before {
					t.Errorf("%d bytes are held", live-before)
				}
			})
		}
	}
}

// products counts the products of each precision.
type products struct {
	tensor.Backend
	highest, other int
}

func (p *products) MatMul(dst, a, b *tensor.Tensor, op tensor.MatMulOp) {
	if op.Highest {
		p.highest++
	} else {
		p.other++
	}
	p.Backend.MatMul(dst, a, b, op)
}

// The products of a new token are of float32. Those of a prompt are, but for the head's, as in training.
func TestPrecisionOfRows(t *testing.T) {
	for _, name := range []string{"llama", "gpt2"} {
		b, m := open(t, configs[name], tensor.F32)
		p := &products{Backend: b}
		cache := nn.NewKVCache(b, tensor.F32, causalLayers(m.Info()), 8, m.Info().KVHeads, m.Info().HeadDim)
		pass := Pass{Backend: p, Model: m, Param: tensor.F32, Cache: cache}
		pass.Logits([]int32{1, 2, 3}, 0, 0, 3)()
		if p.highest != 1 || p.other == 0 {
			t.Errorf("%s: of a prompt's products %d are of the highest precision, %d are not", name, p.highest, p.other)
		}
		p.highest, p.other = 0, 0
		pass.Logits([]int32{4}, 3, 0, 1)()
		if p.highest < 2 || p.other != 0 {
			t.Errorf("%s: of a token's products %d are of the highest precision, %d are not", name, p.highest, p.other)
		}
		cache.Release()
	}
}

// A text longer than the model's positions continues from its newer half.
func TestTextsOutgrowTheModel(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			b, m := open(t, config, tensor.F32)
			for _, prompt := range [][]int32{{1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}} {
				var ids []int32
				for id, err := range Tokens(context.Background(), b, m, prompt, 20, Options{MaxNewTokens: 50, Temperature: 1, Seed: 4}) {
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, id)
				}
				if len(ids) != 50 {
					t.Errorf("%d tokens after %d", len(ids), len(prompt))
				}
			}
		})
	}
}

// A text ends before the first stop token or after MaxNewTokens. The same seed gives the same text.
func TestStop(t *testing.T) {
	b, m := open(t, configs["llama"], tensor.F32)
	text := func(o Options) (ids []int32) {
		for id, err := range Tokens(context.Background(), b, m, []int32{1, 2, 3}, 20, o) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		return ids
	}
	o := Options{MaxNewTokens: 12, Temperature: 1, Seed: 4}
	all := text(o)
	if len(all) != 12 || !slices.Equal(text(o), all) {
		t.Fatalf("%v, and then %v", all, text(o))
	}
	for _, stop := range all {
		o.Stop = []int32{49, stop}
		want := all[:slices.IndexFunc(all, func(id int32) bool { return slices.Contains(o.Stop, id) })]
		if got := text(o); !slices.Equal(got, want) {
			t.Errorf("stopped by %d: %v, want %v", o.Stop, got, want)
		}
	}
}
