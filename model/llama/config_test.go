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
)

const small = `{"architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
	"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16}`

// fits checks that sizes computed from a configuration are far from overflow.
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

// FuzzParseConfig: any config.json is rejected, or has countable sizes and finite frequencies.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(small, `"hidden_size": 16`, `"hidden_size": 16, "head_dim": 268435456, "rope_scaling": {"type": "linear", "factor": 0}`, 1)))
	f.Add([]byte(strings.Replace(small, `40`, `268435456`, 1)))
	f.Add([]byte(`{"vocab_size": 268435456, "hidden_size": 268435456, "intermediate_size": 268435456, "num_hidden_layers": 268435456, "num_attention_heads": 268435456, "head_dim": 268435456, "max_position_embeddings": 268435456}`))
	f.Add([]byte(strings.Replace(small, `"vocab_size"`, `"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 1, "original_max_position_embeddings": 8192}, "vocab_size"`, 1)))
	f.Add([]byte(strings.Replace(small, `"vocab_size"`, `"rope_theta": 1e308, "rms_norm_eps": 1e-300, "rope_scaling": {}, "vocab_size"`, 1)))
	f.Add([]byte(strings.Replace(small, `"vocab_size"`, `"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0000000000000002, "factor": 4, "beta_fast": 1e-3, "beta_slow": 1e-9}, "vocab_size"`, 1)))
	f.Add([]byte(strings.Replace(small, `Llama`, `Mistral`, 1)))
	f.Add([]byte(strings.Replace(small, `"LlamaForCausalLM"]`, `"Qwen2ForCausalLM"], "use_sliding_window": true, "max_window_layers": 1, "sliding_window": 3`, 1)))
	f.Add([]byte(strings.Replace(small, `"LlamaForCausalLM"]`, `"Qwen3ForCausalLM"], "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 3`, 1)))
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
		rotary, err := c.Rotary()
		if err != nil {
			t.Fatalf("%s was accepted: %v", data, err)
		}
		freq, err := rotary.Frequencies()
		if err != nil {
			t.Fatalf("%s was accepted: %v", data, err)
		}
		if n := rotary.MaxPositions(); n <= 0 {
			t.Fatalf("%s was accepted: %d positions", data, n)
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
		"an unsupported scaling":        {`"vocab_size"`, `"rope_scaling": {"type": "dynamic", "factor": 2}, "vocab_size"`, "dynamic"},
		"yarn turned around":            {`"vocab_size"`, `"rope_scaling": {"type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 32}, "vocab_size"`, "beta_fast"},
		"yarn with two gains":           {`"vocab_size"`, `"rope_scaling": {"type": "yarn", "factor": 2, "mscale": 0.7}, "vocab_size"`, "mscale"},
		"part of a head is rotated":     {`"vocab_size"`, `"rope_parameters": {"rope_theta": 500, "partial_rotary_factor": 0.5}, "vocab_size"`, "partial_rotary_factor"},
		"quantized weights":             {`"vocab_size"`, `"quantization_config": {"bits": 4}, "vocab_size"`, "quantization_config"},
		"an empty window":               {`["LlamaForCausalLM"]`, `["MistralForCausalLM"], "sliding_window": 0`, "sliding_window"},
		"windows from no layer on":      {`["LlamaForCausalLM"]`, `["Qwen2ForCausalLM"], "use_sliding_window": true, "sliding_window": 2, "max_window_layers": null`, "max_window_layers"},
		"a kind of layer not known":     {`["LlamaForCausalLM"]`, `["Qwen3ForCausalLM"], "layer_types": ["full_attention", "chunked_attention"]`, "chunked_attention"},
		"kinds of other layers":         {`["LlamaForCausalLM"]`, `["Qwen3ForCausalLM"], "layer_types": ["full_attention"]`, "layer_types"},
		"a sliding layer of Llama":      {`["LlamaForCausalLM"]`, `["LlamaForCausalLM"], "sliding_window": 2, "layer_types": ["full_attention", "sliding_attention"]`, "sliding_window"},
		"biases of Mistral":             {`["LlamaForCausalLM"]`, `["MistralForCausalLM"], "attention_bias": true`, "attention_bias"},
		"dropout of everything":         {`"vocab_size"`, `"attention_dropout": 1, "vocab_size"`, "attention_dropout"},
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

// TestParameterCounts compares counts on the meta backend with the models' files and papers.
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

// TestWindows: which layers have a sliding window, per variant and with defaults.
func TestWindows(t *testing.T) {
	for text, want := range map[string][2]int{
		`["LlamaForCausalLM"], "sliding_window": 3`:                                                         {0, 0},
		`["MistralForCausalLM"], "sliding_window": 3`:                                                       {3, 3},
		`["MistralForCausalLM"], "sliding_window": null`:                                                    {0, 0},
		`["MistralForCausalLM"]`:                                                                            {4096, 4096},
		`["Qwen2ForCausalLM"], "sliding_window": 3`:                                                         {0, 0},
		`["Qwen2ForCausalLM"], "sliding_window": 3, "use_sliding_window": true, "max_window_layers": 1`:     {0, 3},
		`["Qwen2ForCausalLM"], "sliding_window": 3, "use_sliding_window": true`:                             {0, 0}, // from layer 28 on
		`["Qwen3ForCausalLM"], "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]`: {3, 0},
		`["Qwen3ForCausalLM"], "sliding_window": null, "use_sliding_window": false, "max_window_layers": 1`: {0, 0},
		`["Qwen2ForCausalLM"], "sliding_window": null, "use_sliding_window": true, "max_window_layers": 0`:  {0, 0},
	} {
		c, err := ParseConfig([]byte(strings.Replace(small, `["LlamaForCausalLM"]`, text, 1)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := [2]int{c.Window(0), c.Window(1)}; got != want {
			t.Errorf("%s: windows %v, want %v", text, got, want)
		}
	}
}

// TestNames: names in files, and tensors that may be ignored.
func TestNames(t *testing.T) {
	if got := aliases("model.layers.0.mlp.up_proj.weight"); len(got) != 1 || got[0] != "layers.0.mlp.up_proj.weight" {
		t.Errorf("aliases %v", got)
	}
	for name, want := range map[string]bool{
		"model.layers.3.self_attn.rotary_emb.inv_freq": true, "lm_head.weight": true,
		"model.layers.3.self_attn.q_proj.weight": false, "model.norm.weight": false,
	} {
		if got := ignoreUnexpected(name); got != want {
			t.Errorf("%s is ignored: %t, want %t", name, got, want)
		}
	}
}
