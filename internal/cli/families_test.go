package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/device"
	"trireme/model"
)

// published are the keys of config.json that define published models, and their parameter counts; tied
// weights count once.
var published = map[string]struct {
	config string
	params int64
}{
	"gpt2": {`{"architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024}`, 124439808},
	"llama-3.2-1b": {`{"architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
		"num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": true}`, 1235814400},
	"mistral-7b-v0.1": {`{"architectures": ["MistralForCausalLM"], "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8}`, 7241732096},
	"qwen2.5-0.5b": {`{"architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
		"num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true}`, 494032768},
	"qwen3-0.6b": {`{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
		"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": true}`, 596049920},
	"bert-base-uncased with 2 classes": {`{"architectures": ["BertForSequenceClassification"], "vocab_size": 30522, "hidden_size": 768, "intermediate_size": 3072,
		"num_hidden_layers": 12, "num_attention_heads": 12, "num_labels": 2}`, 109482240 + 2*769},
}

func TestParameterCounts(t *testing.T) {
	for name, want := range published {
		config, err := families.ParseConfig(name, []byte(want.config))
		if err != nil {
			t.Fatal(err)
		}
		b, err := device.Open("meta", device.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := config.Make(b, 8)
		if err != nil {
			t.Fatal(err)
		}
		if got := model.CountParams(m); got != want.params {
			t.Errorf("%s has %d parameters, want %d", name, got, want.params)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPublishedConfigs reads configurations of published models, and compares known parameter counts.
func TestPublishedConfigs(t *testing.T) {
	shared := filepath.Join("..", "..", "..", "shared", "data")
	paths, err := filepath.Glob(filepath.Join(shared, "hfconfigs", "*.config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("%s holds no configurations", shared)
	}
	var oracle struct{ Computed map[string]int64 }
	data, err := os.ReadFile(filepath.Join(shared, "oracles", "parameter_counts.json"))
	if err == nil {
		err = json.Unmarshal(data, &oracle)
	}
	if err != nil {
		t.Fatal(err)
	}
	const head = " (BertModel with pooler)" // without the head that a task puts on it
	for name, n := range oracle.Computed {
		if bare, ok := strings.CutSuffix(name, head); ok {
			oracle.Computed[bare] = n
		}
	}
	counted := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".config.json")
		config, err := families.ReadConfig(path)
		if err == nil && config.Family.Name == "bert" {
			config, err = config.ForTask("sequence_classification")
		}
		if err != nil {
			t.Error(err)
			continue
		}
		b, err := device.Open("meta", device.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := config.Make(b, 8)
		if err != nil {
			t.Error(err)
			continue
		}
		got := model.CountParams(m)
		if config.Family.Name == "bert" {
			got -= int64(2 * (m.Info().Hidden + 1)) // the classifier
		}
		if want, ok := oracle.Computed[name]; ok {
			counted++
			if got != want {
				t.Errorf("%s has %d parameters, want %d", name, got, want)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if counted != len(oracle.Computed)-1 { // one has two names
		t.Errorf("%d of %d known numbers were compared", counted, len(oracle.Computed)-1)
	}
}
