package gguf

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/checkpoint/safetensors"
	"trireme/device"
	"trireme/model"
	"trireme/model/bert"
	"trireme/model/gpt2"
	"trireme/model/llama"
	"trireme/tensor"
	"trireme/tokenizer"
)

var families = model.Registry{llama.Family, gpt2.Family, bert.Family}

// configs cover grouped heads, rope scaling, biases, normalized heads, tied heads, and rows that are no multiple of 32.
var configs = map[string]string{
	"llama": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "eos_token_id": [5, 6],
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "attention_bias": true, "mlp_bias": true}`,
	"llama3": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 72, "num_hidden_layers": 2, "tie_word_embeddings": true,
		"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 256, "rope_theta": 500000,
		"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 32}}`,
	"linear": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
		"num_attention_heads": 4, "max_position_embeddings": 128, "rope_scaling": {"type": "linear", "factor": 4}}`,
	"yarn": `{"architectures": ["Qwen2ForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
		"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 128, "rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32}}`,
	"mistral": `{"architectures": ["MistralForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 32,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "sliding_window": null}`,
	"qwen2": `{"architectures": ["Qwen2ForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "tie_word_embeddings": true,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "rope_theta": 1000000}`,
	"qwen3": `{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 32,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}`,
	"gpt2":        `{"architectures": ["GPT2LMHeadModel"], "vocab_size": 320, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}`,
	"gpt2 untied": `{"architectures": ["GPT2LMHeadModel"], "vocab_size": 320, "n_embd": 48, "n_inner": 80, "n_layer": 1, "n_head": 4, "n_positions": 64, "tie_word_embeddings": false}`,
}

// writeModel writes a directory with random weights and returns them by name.
func writeModel(t *testing.T, config string) (dir string, weights map[string][]float32) {
	t.Helper()
	dir, weights = t.TempDir(), map[string][]float32{}
	b, err := device.Open("meta", device.Options{})
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
	var entries []safetensors.Entry
	for _, p := range model.Params(m) {
		entries = append(entries, safetensors.Entry{Name: p.Name, DType: tensor.F32, Shape: p.Shape})
	}
	l, err := safetensors.NewLayout(entries, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := l.WriteHeader(f); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for _, e := range entries {
		v := make([]float32, e.Shape.Elems())
		for i := range v {
			v[i] = float32(rng.NormFloat64() * 0.15)
			if len(e.Shape) == 1 && strings.HasSuffix(e.Name, "weight") { // a gain
				v[i]++
			}
		}
		weights[e.Name] = v
		if err := l.WriteRange(f, e.Name, 0, tensor.AsBytes(v)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, weights
}

// convert converts a directory and opens the file.
func convert(t *testing.T, dir string, kind Type) (path string, f *File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.gguf")
	if _, err := ConvertDirectory(t.Context(), dir, path, kind); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, f
}

// Every parameter is in the file once, in the order of llama.cpp.
func TestConvert(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			dir, weights := writeModel(t, config)
			_, f := convert(t, dir, F32)
			n, err := newNetwork("config.json", []byte(config))
			if err != nil {
				t.Fatal(err)
			}
			used := map[string]bool{}
			for _, m := range n.tensors {
				got, err := f.Read(m.name)
				if err != nil {
					t.Fatal(err)
				}
				if m.order == constant {
					continue
				}
				used[m.from] = true
				for i, v := range got {
					if want := weights[m.from][stored(m, i)]; v != want {
						t.Fatalf("%s: element %d is %v, want %v", m.name, i, v, want)
					}
				}
			}
			for from := range weights {
				if !used[from] {
					t.Errorf("%s is not in the file", from)
				}
			}
			if f.Value("general.architecture") != n.arch || f.Value(n.arch+".block_count") == nil {
				t.Errorf("metadata: %v", f.Metadata())
			}
			if _, f := convert(t, dir, Q8_0); f.Value("general.file_type") != uint32(7) {
				t.Errorf("file_type of q8_0 is %v", f.Value("general.file_type"))
			}
		})
	}
}

// stored returns the index in the model's tensor of element i in the file.
func stored(m mapped, i int) int {
	switch m.order {
	case transposed:
		out, in := m.shape[0], m.shape[1]
		return i%in*out + i/in
	case pairs: // [heads 2 size/2 width] -> [heads size/2 2 width]
		width := 1
		if len(m.shape) == 2 {
			width = m.shape[1]
		}
		half := m.shape[0] / m.heads / 2
		col, row := i%width, i/width
		head, pair, side := row/(2*half), row/2%half, row%2
		return ((head*2+side)*half+pair)*width + col
	}
	return i
}

func TestConvertRefuses(t *testing.T) {
	for config, want := range map[string]string{
		`{"architectures": ["BertForMaskedLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}`:                                         "llama.cpp has no architecture",
		`{"architectures": ["GPT2LMHeadModel"], "vocab_size": 40, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "activation_function": "gelu"}`:                                            "tanh approximation",
		`{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8, "attention_bias": true}`: "no biases for Qwen3",
		strings.Replace(configs["yarn"], `"factor": 4`, `"factor": 4, "attention_factor": 2`, 1):                                                                                                         "settings of yarn",
	} {
		dir, _ := writeModel(t, config)
		path := filepath.Join(dir, "x.gguf")
		if _, err := ConvertDirectory(t.Context(), dir, path, F32); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", config, err, want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a file was left", config)
		}
	}
	dir, _ := writeModel(t, configs["qwen2"])
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(configs["mistral"]), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ConvertDirectory(t.Context(), dir, filepath.Join(dir, "x.gguf"), F32); err == nil || !strings.Contains(err.Error(), "as config.json says") {
		t.Errorf("another config.json: %v", err)
	}
}

// A window that llama.cpp lacks and a missing tokenizer are reported.
func TestNotes(t *testing.T) {
	dir, _ := writeModel(t, strings.Replace(configs["mistral"], `"sliding_window": null`, `"sliding_window": 16`, 1))
	notes, err := ConvertDirectory(t.Context(), dir, filepath.Join(dir, "x.gguf"), BF16)
	if text := strings.Join(notes, "\n"); err != nil || !strings.Contains(text, "beyond 16 tokens") || !strings.Contains(text, "there is no tokenizer") {
		t.Errorf("%q, %v", notes, err)
	}
}

// A tokenizer's tokens, merges, special tokens and kinds are in the file, padded to the model's rows. Its path may be
// that of the file.
func TestVocabulary(t *testing.T) {
	dir, _ := writeModel(t, configs["qwen2"])
	smallTokenizer(t, dir, "")
	_, f := convert(t, dir, F16)
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _ := f.Value("tokenizer.ggml.tokens").([]string)
	kinds, _ := f.Value("tokenizer.ggml.token_type").([]int32)
	if len(tokens) != 320 || len(kinds) != 320 || tokens[0] != "<|endoftext|>" || kinds[0] != int32(tokenizer.ControlToken) || tokens[319] != "[PAD319]" || kinds[319] != int32(tokenizer.UnusedToken) {
		t.Errorf("%d tokens %.3q, kinds %v", len(tokens), tokens, kinds[:min(3, len(kinds))])
	}
	if merges, _ := f.Value("tokenizer.ggml.merges").([]string); len(merges) != tok.VocabSize()-257 {
		t.Errorf("%d merges of %d tokens", len(merges), tok.VocabSize())
	}
	for key, want := range map[string]any{"model": "gpt2", "pre": "gpt-2", "eos_token_id": uint32(0), "add_bos_token": false} {
		if got := f.Value("tokenizer.ggml." + key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if !hasTokenizer(dir) || !hasTokenizer(filepath.Join(dir, "tokenizer.json")) || hasTokenizer(t.TempDir()) || hasTokenizer("") {
		t.Error("a tokenizer's path is not recognized")
	}
	small := strings.Replace(configs["qwen2"], `"vocab_size": 320`, `"vocab_size": 100`, 1)
	other, _ := writeModel(t, small)
	smallTokenizer(t, other, "")
	if _, err := ConvertDirectory(t.Context(), other, filepath.Join(other, "x.gguf"), F16); err == nil || !strings.Contains(err.Error(), "vocabulary only 100") {
		t.Errorf("a tokenizer with more tokens than rows: %v", err)
	}
}
