package freetransformer

import (
	"strings"
	"testing"

	"trireme/internal/backend/meta"
	"trireme/model"
)

const small = `{"architectures": ["FreeTransformerForCausalLM"], "vocab_size": 30, "hidden_size": 12, "intermediate_size": 20,
	"num_hidden_layers": 4, "num_attention_heads": 2, "max_position_embeddings": 16, "latent_bits": 5, "initializer_range": 0.5`

func TestParseConfig(t *testing.T) {
	c, err := ParseConfig([]byte(small + `}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.NumKeyValueHeads != 2 || c.HeadDim != 6 || c.LatentMode != Exact || c.LatentBits != 5 {
		t.Errorf("filled in: %+v", c)
	}
	if c, err := ParseConfig([]byte(strings.Replace(small, "FreeTransformerFor", "FreeTransformerBaselineFor", 1) + `}`)); err != nil || c.LatentBits != 0 {
		t.Errorf("the baseline has %d bits, %v", c.LatentBits, err)
	}
	for text, want := range map[string]string{
		`, "latent_bits": 21}`:                            "factored",
		`, "latent_bits": 65}`:                            "latent_bits is 65",
		`, "latent_bits": -1}`:                            "latent_bits is -1",
		`, "num_hidden_layers": 3}`:                       "odd",
		`, "latent_mode": "soft"}`:                        "latent_mode",
		`, "free_bits": -0.5}`:                            "free_bits",
		`, "num_attention_heads": 5}`:                     "multiple",
		`, "num_key_value_heads": 3}`:                     "multiple",
		`, "head_dim": 5}`:                                "odd",
		`, "vocab_size": 0}`:                              "vocab_size",
		`, "vocab_size": "many"}`:                         "vocab_size",
		`, "rms_norm_eps": 0}`:                            "rms_norm_eps",
		`, "rope_theta": 0}`:                              "rope_theta",
		`, "initializer_range": -1}`:                      "initializer_range",
		`, `:                                              "line 2",
		`, "latent_mode": "factored", "latent_bits": 64}`: "",
		`, "latent_bits": 20}`:                            "",
	} {
		_, err := ParseConfig([]byte(small + text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The latent adds an encoder, a query, a readout and a table to the baseline.
func TestParameters(t *testing.T) {
	count := func(text string) int64 {
		c, err := ParseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(meta.New(), c, 0)
		if err != nil {
			t.Fatal(err)
		}
		return model.CountParams(m)
	}
	plain := count(strings.Replace(small, "FreeTransformerFor", "FreeTransformerBaselineFor", 1) + `}`)
	layer := int64(4*12*12 + 3*12*20 + 2*12)
	if want := 2*30*12 + 4*layer + 12; plain != int64(want) {
		t.Errorf("the baseline has %d parameters, want %d", plain, want)
	}
	if got, want := count(small+`}`)-plain, layer+12+12+5*12+32*12; got != want {
		t.Errorf("exact mode adds %d, want %d", got, want)
	}
	if got, want := count(small+`, "latent_mode": "factored"}`)-plain, layer+12+12+5*12+5*12; got != want {
		t.Errorf("factored mode adds %d, want %d", got, want)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(small + `}`))
	f.Add([]byte(small + `, "latent_mode": "factored", "latent_bits": 64}`))
	f.Add([]byte(`{"vocab_size": 1e9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil || c.NumHiddenLayers > 64 {
			return
		}
		if _, err := New(meta.New(), c, 1); err != nil {
			t.Errorf("New fails after ParseConfig: %v", err)
		}
	})
}
