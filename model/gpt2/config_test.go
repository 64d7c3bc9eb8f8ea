package gpt2

import (
	"math"
	"strings"
	"testing"

	"trireme/internal/backend/meta"
	"trireme/model"
)

const small = `{"architectures": ["GPT2LMHeadModel"], "vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 16}`

// FuzzParseConfig: any config.json is rejected or has countable sizes.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(small, `40`, `268435456`, 1)))
	f.Add([]byte(`{"vocab_size": 268435456, "n_embd": 16777216, "n_inner": 67108864, "n_layer": 16384, "n_head": 65536, "n_positions": 268435456}`))
	f.Add([]byte(`{"n_embd": -4, "n_head": -2}`))
	f.Add([]byte(`{"n_embd": 9223372036854775807}`))
	f.Add([]byte(strings.Replace(small, `16,`, `16, "attn_pdrop": null, "n_inner": null, "activation_function": "gelu", "scale_attn_weights": false,`, 1)))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil {
			return
		}
		if n := c.size(); !(n*8 < math.MaxInt64) {
			t.Fatalf("%s was accepted: %v parameters", data, n)
		}
		for i := range 2 {
			if s := c.scale(i); !(s > 0 && s <= 1) {
				t.Fatalf("%s was accepted: scores are multiplied by %v", data, s)
			}
		}
		if c.NLayer > 1<<8 {
			return
		}
		m, err := New(meta.New(), c, min(4, c.NPositions))
		if err != nil {
			t.Fatalf("%s was accepted: %v", data, err)
		}
		for _, p := range model.Params(m) {
			if n := p.Shape.Elems(); n <= 0 {
				t.Fatalf("%s was accepted: %s has %d elements", data, p.Name, n)
			}
		}
		if n := model.CountParams(m); float64(n) > c.size() {
			t.Fatalf("%s has %d parameters, size() is %v", data, n, c.size())
		}
	})
}

func TestRefused(t *testing.T) {
	for what, c := range map[string]struct{ from, to, err string }{
		"heads that do not divide":      {`"n_head": 4`, `"n_head": 5`, "n_head 5"},
		"no layers":                     {`"n_layer": 2`, `"n_layer": 0`, "n_layer"},
		"a negative inner size":         {`"n_head": 4`, `"n_head": 4, "n_inner": -1`, "n_inner"},
		"an activation that is unknown": {`"n_head": 4`, `"n_head": 4, "activation_function": "relu"`, `activation_function: "relu"`},
		"dropout of everything":         {`"n_head": 4`, `"n_head": 4, "resid_pdrop": 1`, "resid_pdrop"},
		"an encoder to attend to":       {`"n_head": 4`, `"n_head": 4, "add_cross_attention": true`, "add_cross_attention"},
		"a norm without epsilon":        {`"n_head": 4`, `"n_head": 4, "layer_norm_epsilon": 0`, "layer_norm_epsilon"},
		"quantized weights":             {`"n_head": 4`, `"n_head": 4, "quantization_config": {"bits": 4}`, "quantization_config"},
		"a vocabulary of text":          {`"vocab_size": 40`, `"vocab_size": "40"`, "vocab_size"},
		"more parameters than can be":   {`"n_embd": 16, "n_layer": 2`, `"n_embd": 16777216, "n_layer": 16384`, "parameters"},
	} {
		text := strings.Replace(small, c.from, c.to, 1)
		if text == small {
			t.Fatalf("%s: nothing was changed", what)
		}
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c, err := ParseConfig([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(meta.New(), c, 17); err == nil || !strings.Contains(err.Error(), "n_positions 16") {
		t.Errorf("too many positions: %v", err)
	}
}

// TestScale: the factor of attention scores for each pair of keys.
func TestScale(t *testing.T) {
	for text, want := range map[string][2]float64{
		``:                              {0.5, 0.5},
		`, "scale_attn_weights": false`: {1, 1},
		`, "scale_attn_by_inverse_layer_idx": true`:                              {0.5, 0.25},
		`, "scale_attn_by_inverse_layer_idx": true, "scale_attn_weights": false`: {1, 0.5},
	} {
		c, err := ParseConfig([]byte(strings.Replace(small, `"n_head": 4`, `"n_head": 4`+text, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]float64{c.scale(0), c.scale(1)}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestInit: residual projections have a smaller deviation.
func TestInit(t *testing.T) {
	c, err := ParseConfig([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(meta.New(), c, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range model.Params(m) {
		want := 0.02
		switch {
		case strings.HasSuffix(p.Name, "c_proj.weight"):
			want = 0.01 // 0.02 / sqrt(2*2)
		case !p.Decays():
			want = 0
		}
		if math.Abs(p.Init.Std-want) > 1e-15 {
			t.Errorf("%s has an initial deviation of %v, want %v", p.Name, p.Init.Std, want)
		}
	}
}

// TestNames: names in files, and tensors that may be ignored.
func TestNames(t *testing.T) {
	if got := aliases("transformer.h.0.attn.c_attn.bias"); len(got) != 1 || got[0] != "h.0.attn.c_attn.bias" {
		t.Errorf("aliases %v", got)
	}
	if got := aliases("lm_head.weight"); got != nil {
		t.Errorf("aliases %v of the head", got)
	}
	for name, want := range map[string]bool{
		"transformer.h.11.attn.bias": true, "h.0.attn.masked_bias": true, "lm_head.weight": true,
		"h.0.attn.c_attn.bias": false, "transformer.h.0.mlp.c_fc.bias": false, "wte.weight": false,
	} {
		if got := ignoreUnexpected(name); got != want {
			t.Errorf("%s is ignored: %t, want %t", name, got, want)
		}
	}
}
