package train

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/device"
	"trireme/generate"
	"trireme/model"
	"trireme/model/freetransformer"
	"trireme/model/gpt2"
	"trireme/model/llama"
	"trireme/nn"
	"trireme/tensor"
)

var decoders = model.Registry{llama.Family, gpt2.Family, freetransformer.Family}

// typedConfigs have widths that are and are not multiples of a block, tied and other heads, biases and latent bits.
var typedConfigs = map[string]string{
	"qwen2": `{"architectures": ["Qwen2ForCausalLM"], "vocab_size": 300, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3,
		"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": true}`,
	"llama": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 290, "hidden_size": 128, "intermediate_size": 200, "num_hidden_layers": 3,
		"num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 64}`,
	"free transformer": `{"architectures": ["FreeTransformerForCausalLM"], "vocab_size": 200, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "latent_bits": 5}`,
	"gpt2": `{"architectures": ["GPT2LMHeadModel"], "vocab_size": 200, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}`,
}

// writeModel writes a model with random weights of type dt and returns its directory and number of parameters.
func writeModel(t *testing.T, config string, dt tensor.DType) (dir string, params int) {
	t.Helper()
	c, err := decoders.ParseConfig("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	b, err := device.Open("cpu", device.Options{Threads: 1, Reserve: 1 << 26})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	m, err := c.Make(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	var entries []safetensors.Entry
	for _, p := range model.Params(m) {
		entries = append(entries, entry(p.Name, dt, p.Shape...))
		params += p.Shape.Elems()
	}
	l, err := safetensors.NewLayout(entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, safetensors.ModelFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Truncate(l.Size()), l.WriteHeader(f)); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range model.Params(m) {
		x := make([]float32, p.Shape.Elems())
		for i := range x {
			switch x[i] = float32(rng.NormFloat64() / math.Sqrt(float64(p.Shape[len(p.Shape)-1]))); p.Init.Kind {
			case nn.Ones:
				x[i] += 1
			case nn.Zeros:
				x[i] *= 0.1
			}
		}
		bytes := make([]byte, len(x)*dt.Size())
		safetensors.Convert(bytes, dt, tensor.AsBytes(x), tensor.F32)
		if err := l.WriteRange(f, p.Name, 0, bytes); err != nil {
			t.Fatal(err)
		}
	}
	return dir, params
}

// TestCacheTypes states the error of logits by rounding only keys and values of earlier tokens.
func TestCacheTypes(t *testing.T) {
	for name, limits := range map[string][2]float64{"qwen2": {0.006, 0.016}, "llama": {0.003, 0.008}} {
		dir, _ := writeModel(t, typedConfigs[name], tensor.F32)
		m, err := LoadModel(decoders, dir, device.Config{Name: device.CPU, Threads: 1}, Float32)
		if err != nil {
			t.Fatal(err)
		}
		want := logitsWith(t, m, tensor.F32)
		for i, dt := range []tensor.DType{tensor.BF16, tensor.U8} {
			rms, regret := logitError(want, logitsWith(t, m, dt))
			t.Logf("%s, cache %v: error %.5f, regret %.5f", name, dt, rms, regret)
			if rms == 0 || rms > limits[i] {
				t.Errorf("%s, cache %v: the error is %.5f of a standard deviation, want less than %v and not 0", name, dt, rms, limits[i])
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// logitsOf is logitsWith with a cache of the type of activations.
func logitsOf(t *testing.T, m *LoadedModel) [][]float32 {
	t.Helper()
	return logitsWith(t, m, m.DType)
}

// logitsWith returns logits after prefixes of a text, computed at once and row by row.
func logitsWith(t *testing.T, m *LoadedModel, cached tensor.DType) (all [][]float32) {
	t.Helper()
	info, layers := m.Model.Info(), 0
	for _, a := range info.Attention {
		if a.Causal {
			layers += a.Layers
		}
	}
	cache := nn.NewKVCache(m.Backend, cached, layers, 40, info.KVHeads, info.HeadDim)
	defer cache.Release()
	pass := generate.Pass{Backend: m.Backend, Model: m.Model, Param: m.DType, Cache: cache}
	text := make([]int32, 40)
	for i := range text {
		text[i] = int32(i * i * 7 % info.Vocab)
	}
	for at := 0; at < len(text); {
		n := 1
		if at == 0 {
			n = 20 // the prompt
		}
		out := make([]float32, info.Vocab)
		copy(tensor.AsBytes(out), pass.Logits(text[at:at+n], at, 0, n)())
		all, at = append(all, out), at+n
	}
	return all
}

// logitError is the root mean square of the differences of logits, relative to the standard deviation of a row's, and
// regret the largest loss of want's logit by got's choice, in the same unit.
func logitError(want, got [][]float32) (rms, regret float64) {
	for r := range want {
		sum, squares, errors := 0.0, 0.0, 0.0
		for i, x := range want[r] {
			sum += float64(x)
			squares += float64(x) * float64(x)
			errors += float64(got[r][i]-x) * float64(got[r][i]-x)
		}
		n := float64(len(want[r]))
		variance := squares/n - sum/n*sum/n
		rms += errors / n / variance / float64(len(want))
		best := slices.Index(got[r], slices.Max(got[r]))
		regret = max(regret, float64(slices.Max(want[r])-want[r][best])/math.Sqrt(variance))
	}
	return math.Sqrt(rms), regret
}

// A model in fewer bits has about the logits of float32, for prompts and for single rows, from files of any type. Its
// memory is that of its weights: nothing is left of a copy in float32, and there was none of the full model.
func TestWeightTypes(t *testing.T) {
	for name, config := range typedConfigs {
		for _, files := range []tensor.DType{tensor.F32, tensor.BF16} {
			t.Run(name+" from "+files.String(), func(t *testing.T) {
				dir, params := writeModel(t, config, files)
				var want [][]float32
				for _, c := range []struct {
					as    WeightType
					tol   float64
					bytes float64 // per parameter
				}{{Float32, 0, 4}, {BFloat16, 0.04, 2}, {Int8, 0.08, 1.0625}} {
					m, err := LoadModel(decoders, dir, device.Config{Name: "cpu", Threads: 2}, c.as)
					if name == "gpt2" && c.as == Int8 {
						if err == nil || !strings.Contains(err.Error(), "int8 weights are not supported for gpt2, whose matrices are transposed. try: bfloat16 weights") {
							t.Errorf("int8: %v", err)
						}
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					use := m.Backend.Meter().Read()
					if got := float64(use.Live[tensor.Params]+use.Live[tensor.Master]) / float64(params); got < c.bytes || got > 1.15*c.bytes+0.1 {
						t.Errorf("%s: parameters have %.2f bytes each, want %v", c.as, got, c.bytes)
					}
					if more := use.PeakTotal - use.LiveTotal; more > 4*quantizedElems {
						t.Errorf("%s: loading took %d bytes more than the model", c.as, more)
					}
					got := logitsOf(t, m)
					if c.as == Float32 {
						want = got
					}
					rms, regret := logitError(want, got)
					if t.Logf("%s: logits differ by %.4f standard deviations, choices by %.3f", c.as, rms, regret); !(rms <= c.tol) || !(regret <= 3*c.tol) || c.tol > 0 && rms == 0 {
						t.Errorf("%s: want %v, and %v for choices", c.as, c.tol, 3*c.tol)
					}
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// A checkpoint loads in every type, with the bits of its files.
func TestWeightTypesOfCheckpoints(t *testing.T) {
	dir, _ := writeModel(t, typedConfigs["qwen2"], tensor.F32)
	config, err := decoders.ReadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	full, err := LoadModel(decoders, dir, device.Config{Name: "cpu", Threads: 1}, Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	saved := saveCheckpoint(t, full)
	for _, as := range []WeightType{Float32, BFloat16, Int8} {
		var logits [2][][]float32
		for i := range logits {
			m, err := LoadModel(decoders, dir, device.Config{Name: "cpu", Threads: 1}, as)
			if i == 1 {
				m.Close()
				m, err = LoadCheckpoint(context.Background(), config, saved, device.Config{Name: "cpu", Threads: 1}, as)
			}
			if err != nil {
				t.Fatal(err)
			}
			logits[i] = logitsOf(t, m)
			m.Close()
		}
		if worst, _ := logitError(logits[0], logits[1]); worst != 0 {
			t.Errorf("%s: logits differ by %v", as, worst)
		}
	}
}

// Unknown types, and devices without 8-bit weights, are reported.
func TestWeightTypeErrors(t *testing.T) {
	dir, _ := writeModel(t, typedConfigs["llama"], tensor.F32)
	for as, want := range map[WeightType]string{"int4": `weights cannot be kept as "int4"`, Int8: "int8 weights need the device cpu, not cuda. try: bfloat16 weights"} {
		m, err := LoadModel(decoders, dir, device.Config{Name: "cuda"}, as)
		if err == nil {
			m.Close()
		}
		var mistake *InputError
		if !errors.As(err, &mistake) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", as, err, want)
		}
	}
}

// saveCheckpoint saves a model's parameters and returns the checkpoint's directory.
func saveCheckpoint(t *testing.T, m *LoadedModel) string {
	t.Helper()
	s, err := checkpoint.NewStore(t.TempDir(), "test", checkpoint.Config{}, checkpoint.SingleProcess{}, m.Backend)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := s.Save(context.Background(), checkpoint.Meta{Step: 1}, m.engine.State())
	if err != nil {
		t.Fatal(err)
	}
	return saved.Path
}
