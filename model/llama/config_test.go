package llama

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/internal/backend/meta"
	"trireme/model"
	"trireme/nn"
)

const small = `{"architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
	"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16}`

// fits says that everything that is multiplied out of a configuration is far from overflow.
func fits(c Config) error {
	product := func(v ...int) float64 {
		p := 1.0
		for _, x := range v {
			if x <= 0 {
				return math.Inf(1)
			}
			p *= float64(x)
		}
		return p
	}
	d, f, q, kv := c.HiddenSize, c.IntermediateSize, product(c.NumAttentionHeads, c.HeadDim), product(c.NumKeyValueHeads, c.HeadDim)
	layer := float64(d)*(2*q+2*kv+3*float64(f)+2) + 2*q + 2*kv + 3*float64(f)
	total := 2*product(c.VocabSize, d) + float64(c.NumHiddenLayers)*layer + float64(d)
	switch {
	case !(total*8 < math.MaxInt64): // bytes, in float64
		return fmt.Errorf("%v parameters", total)
	case !(product(c.MaxPositionEmbeddings, c.HeadDim)*8 < math.MaxInt64):
		return fmt.Errorf("%d positions of heads of %d", c.MaxPositionEmbeddings, c.HeadDim)
	}
	return nil
}

// FuzzParseConfig: whatever a stranger's config.json holds, it is refused or has sizes that
// can be counted, and finite frequencies.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(small, `"hidden_size": 16`, `"hidden_size": 16, "head_dim": 268435456, "rope_scaling": {"type": "linear", "factor": 0}`, 1)))
	f.Add([]byte(strings.Replace(small, `40`, `268435456`, 1)))
	f.Add([]byte(`{"vocab_size": 268435456, "hidden_size": 268435456, "intermediate_size": 268435456, "num_hidden_layers": 268435456, "num_attention_heads": 268435456, "head_dim": 268435456, "max_position_embeddings": 268435456}`))
	f.Add([]byte(strings.Replace(small, `"vocab_size"`, `"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 1, "original_max_position_embeddings": 8192}, "vocab_size"`, 1)))
	f.Add([]byte(strings.Replace(small, `"vocab_size"`, `"rope_theta": 1e308, "rms_norm_eps": 1e-300, "rope_scaling": {}, "vocab_size"`, 1)))
	f.Add([]byte(`{"num_attention_heads": -1, "hidden_size": -4}`))
	f.Add([]byte(`{"hidden_size": 1e400}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil {
			return
		}
		if err := fits(c); err != nil {
			t.Fatalf("%s was accepted: %v", data, err)
		}
		freq, err := c.rotary().Frequencies()
		if err != nil {
			t.Fatalf("%s was accepted: %v", data, err)
		}
		for _, w := range freq {
			if math.IsNaN(w) || math.IsInf(w, 0) {
				t.Fatalf("%s was accepted: frequency %v", data, w)
			}
		}
		if c.NumHiddenLayers > 1<<8 {
			return
		}
		m, err := New(meta.New(), c, min(4, c.MaxPositionEmbeddings))
		if err != nil {
			t.Fatalf("%s was accepted: %v", data, err)
		}
		for _, p := range model.Params(m) {
			if n := p.Shape.Elems(); n <= 0 {
				t.Fatalf("%s was accepted: %s has %d elements", data, p.Name, n)
			}
		}
	})
}

func TestRefused(t *testing.T) {
	for what, c := range map[string]struct{ from, to, err string }{
		"more parameters than can be": {`"hidden_size": 16, "intermediate_size": 28,
	"num_hidden_layers": 2`, `"hidden_size": 16777216, "intermediate_size": 28, "head_dim": 8192, "num_hidden_layers": 16384`, "parameters"},
		"a head larger than can be":     {`"num_hidden_layers": 2`, `"num_hidden_layers": 2, "head_dim": 268435456`, "head_dim"},
		"more layers than can be":       {`"num_hidden_layers": 2`, `"num_hidden_layers": 268435456`, "num_hidden_layers"},
		"llama3 without its numbers":    {`"vocab_size"`, `"rope_scaling": {"rope_type": "llama3", "factor": 8}, "vocab_size"`, "original_max_position_embeddings"},
		"llama3 with one frequency":     {`"vocab_size"`, `"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 8192}, "vocab_size"`, "high_freq_factor"},
		"linear without factor":         {`"vocab_size"`, `"rope_scaling": {"type": "linear"}, "vocab_size"`, "factor"},
		"a scaling that is not known":   {`"vocab_size"`, `"rope_scaling": {"type": "yarn", "factor": 2}, "vocab_size"`, "yarn"},
		"heads that do not divide":      {`"num_key_value_heads": 2`, `"num_key_value_heads": 3`, "num_key_value_heads"},
		"a head of odd size":            {`"hidden_size": 16`, `"hidden_size": 12`, "head_dim"},
		"a vocabulary of text":          {`"vocab_size": 40`, `"vocab_size": "40"`, "vocab_size"},
		"a negative standard deviation": {`"vocab_size"`, `"initializer_range": -1, "vocab_size"`, "initializer_range"},
	} {
		text := strings.Replace(small, c.from, c.to, 1)
		if text == small {
			t.Fatalf("%s: nothing was changed", what)
		}
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestLlama3Scaling works the frequencies out again, as the model card of Llama 3.1 and section
// 3.2 of its paper say: a frequency whose wavelength is shorter than the original context /
// high_freq_factor stays, one whose wavelength is longer than the context / low_freq_factor is
// divided by factor, and between the two the share that stays grows linearly in context /
// wavelength.
func TestLlama3Scaling(t *testing.T) {
	const dim, theta, factor, low, high, context = 128, 500000.0, 8.0, 1.0, 4.0, 8192.0
	r := nn.Rotary{Dim: dim, Theta: theta, Scaling: &nn.RopeScaling{Type: "llama3", Factor: factor, LowFreqFactor: low, HighFreqFactor: high, OriginalMaxPositionEmbeddings: context}}
	got, err := r.Frequencies()
	if err != nil {
		t.Fatal(err)
	}
	kept, scaled, mixed := 0, 0, 0
	for i, w := range got {
		inverse := 1 / math.Pow(theta, 2*float64(i)/dim)
		wavelength := 2 * math.Pi / inverse
		want := inverse
		switch {
		case wavelength < context/high:
			kept++
		case wavelength > context/low:
			want = inverse / factor
			scaled++
		default:
			s := (context/wavelength - low) / (high - low)
			want = s*inverse + (1-s)*inverse/factor
			mixed++
		}
		if math.Abs(w-want) > 1e-14*want {
			t.Errorf("frequency %d is %v, want %v", i, w, want)
		}
	}
	// The counts for Llama 3.1 8B: pairs 0-28 keep, 29-34 blend, 35-63 are divided by 8.
	if kept != 29 || mixed != 6 || scaled != 29 {
		t.Errorf("%d stay, %d are mixed, %d divided", kept, mixed, scaled)
	}
}

// TestParameterCounts counts on the meta backend, against the numbers that the models' files
// and papers have.
func TestParameterCounts(t *testing.T) {
	cfg := func(vocab, hidden, inner, layers, heads, kv int, tied bool) string {
		return fmt.Sprintf(`{"vocab_size": %d, "hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": %d, "num_attention_heads": %d, "num_key_value_heads": %d, "tie_word_embeddings": %t}`,
			vocab, hidden, inner, layers, heads, kv, tied)
	}
	want := map[string]int64{"llama-2-7b": 6738415616, "llama-3-8b": 8030261248, "llama-3.2-1b": 1235814400, "tinyllama-1.1b": 1100048384}
	var oracle struct{ Computed map[string]int64 }
	path := filepath.Join("..", "..", "..", "shared", "data", "oracles", "parameter_counts.json")
	if data, err := os.ReadFile(path); err != nil {
		t.Logf("only the inline counts are compared: %v", err)
	} else if err := json.Unmarshal(data, &oracle); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"llama-2-7b":     cfg(32000, 4096, 11008, 32, 32, 32, false),
		"llama-2-13b":    cfg(32000, 5120, 13824, 40, 40, 40, false),
		"llama-2-70b":    cfg(32000, 8192, 28672, 80, 64, 8, false),
		"llama-3-8b":     cfg(128256, 4096, 14336, 32, 32, 8, false),
		"llama-3.1-70b":  cfg(128256, 8192, 28672, 80, 64, 8, false),
		"llama-3.1-405b": cfg(128256, 16384, 53248, 126, 128, 8, false),
		"llama-3.2-1b":   cfg(128256, 2048, 8192, 16, 32, 8, true),
		"llama-3.2-3b":   strings.Replace(cfg(128256, 3072, 8192, 28, 24, 8, true), "{", `{"head_dim": 128, `, 1),
		"tinyllama-1.1b": cfg(32000, 2048, 5632, 22, 32, 4, false),
	} {
		c, err := ParseConfig([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, err := New(meta.New(), c, 8)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := model.CountParams(m)
		for _, w := range []int64{want[name], oracle.Computed[name]} {
			if w != 0 && got != w {
				t.Errorf("%s has %d parameters, want %d", name, got, w)
			}
		}
	}
}
