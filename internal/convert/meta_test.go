package convert

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/tensor"
)

// tinyLlama is a source in memory: two layers, 2 heads of 4 rows for q and one for k.
func tinyLlama(tied bool) *Source {
	s := &Source{Path: "tiny", Config: []byte(`{"model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 1}`)}
	rng := rand.New(rand.NewPCG(1, 1))
	add := func(kind, name string, shape ...int) {
		values := make([]float32, tensor.Shape(shape).Elems())
		for i := range values {
			values[i] = rng.Float32()
		}
		b := tensor.AsBytes(values)
		s.Tensors = append(s.Tensors, Tensor{kind, name, "F32", shape, func(first, count int, dst []byte) error {
			copy(dst[:4*count], b[4*first:])
			return nil
		}})
	}
	for _, kind := range []string{"param", "exp_avg"} {
		add(kind, "model.embed_tokens.weight", 5, 6)
		for _, layer := range []string{"model.layers.0.", "model.layers.1."} {
			for name, rows := range map[string]int{"self_attn.q_proj": 8, "self_attn.k_proj": 4, "self_attn.v_proj": 4, "self_attn.o_proj": 6, "mlp.gate_proj": 7, "mlp.up_proj": 7, "mlp.down_proj": 6} {
				add(kind, layer+name+".weight", rows, 6)
			}
			add(kind, layer+"input_layernorm.weight", 6)
			add(kind, layer+"post_attention_layernorm.weight", 6)
		}
		add(kind, "model.norm.weight", 6)
		if !tied {
			add(kind, "lm_head.weight", 5, 6)
		}
	}
	return s
}

// TestTorchTitan: a Llama goes to torchtitan's names and order of rows and comes back with the same bits, its moments too.
func TestTorchTitan(t *testing.T) {
	for _, tied := range []bool{false, true} {
		s := tinyLlama(tied)
		want := values(t, s, "param")
		dir := filepath.Join(t.TempDir(), "titan")
		if _, err := (Target{Write: writeDCP}).Run(t.Context(), s, dir, Options{Names: TorchTitan}); err != nil {
			t.Fatal(err)
		}
		back, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer back.Close()
		got := values(t, back, "param")
		names := make([]string, 0, len(got))
		for name := range got {
			names = append(names, name)
		}
		slices.Sort(names)
		if list := strings.Join(names[:9], " "); len(got) != 21 || list != "layers.0.attention.wk.weight layers.0.attention.wo.weight layers.0.attention.wq.weight layers.0.attention.wv.weight layers.0.attention_norm.weight layers.0.feed_forward.w1.weight layers.0.feed_forward.w2.weight layers.0.feed_forward.w3.weight layers.0.ffn_norm.weight" {
			t.Fatalf("%d tensors: %s", len(got), list)
		}
		back.Config = s.Config
		if err := (Options{}).inHuggingFace(back); err != nil {
			t.Fatal(err)
		}
		if tied {
			want["lm_head.weight"] = want["model.embed_tokens.weight"]
		}
		same(t, fmt.Sprint("tied: ", tied), values(t, back, "param"), want)
	}

	s := tinyLlama(false)
	want := values(t, s, "exp_avg")
	var err error
	if s.Tensors, err = (metaHeads{Query: 2, Keys: 1}).toMeta(s.Tensors); err != nil {
		t.Fatal(err)
	}
	s.Tensors = append(s.Tensors, Tensor{Kind: "param", Name: "train_state.step", Type: "I64"})
	if err := s.fromMeta(metaHeads{Query: 2, Keys: 1}); err != nil {
		t.Fatal(err)
	}
	if len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "train_state.step") {
		t.Errorf("notes: %q", s.Notes)
	}
	same(t, "moments", values(t, s, "exp_avg"), want)
}

// TestRowsOfPairs: rows 0 to 3 of a head are the first coordinates of its two pairs, then the second ones.
func TestRowsOfPairs(t *testing.T) {
	rows := Tensor{"param", "x", "F32", tensor.Shape{8, 1}, func(first, count int, dst []byte) error {
		for i := range count {
			copy(dst[4*i:], tensor.AsBytes([]float32{float32(first + i)}))
		}
		return nil
	}}
	for fromMeta, want := range map[bool][]float32{false: {0, 2, 1, 3, 4, 6, 5, 7}, true: {0, 2, 1, 3, 4, 6, 5, 7}} {
		b := make([]byte, 32)
		if err := rows.reordered(4, fromMeta).Read(0, 8, b); err != nil || !slices.Equal(tensor.FromBytes[float32](b), want) {
			t.Errorf("%v: %v, %v", fromMeta, tensor.FromBytes[float32](b), err)
		}
	}
	b := make([]byte, 24) // heads of 6 rows: the orders differ
	rows.Shape = tensor.Shape{6, 1}
	for fromMeta, want := range map[bool][]float32{false: {0, 3, 1, 4, 2, 5}, true: {0, 2, 4, 1, 3, 5}} {
		if err := rows.reordered(6, fromMeta).Read(0, 6, b); err != nil || !slices.Equal(tensor.FromBytes[float32](b), want) {
			t.Errorf("%v: %v, %v", fromMeta, tensor.FromBytes[float32](b), err)
		}
	}
}

// TestNotTorchTitan: a model other than a Llama, and a wrong config.json, are refused before anything is written.
func TestNotTorchTitan(t *testing.T) {
	for what, c := range map[string]struct {
		change func(s *Source)
		want   string
	}{
		"config":    {func(s *Source) { s.Config = nil }, "try: --model DIR"},
		"family":    {func(s *Source) { s.Config = []byte(`{"model_type": "qwen2", "num_attention_heads": 2}`) }, `not of model_type "qwen2"`},
		"heads":     {func(s *Source) { s.Config = []byte(`{"model_type": "llama", "num_attention_heads": 3}`) }, "has no 3 heads"},
		"no number": {func(s *Source) { s.Config = []byte(`{"model_type": "llama"}`) }, "with 0 and 0 heads"},
		"a bias":    {func(s *Source) { s.Tensors[1].Name = "model.layers.0.self_attn.q_proj.bias" }, "q_proj.bias is not a tensor of a Llama"},
		"a layer":   {func(s *Source) { s.Tensors[0].Name = "model.layers.0.model.embed_tokens.weight" }, "is not a tensor of a Llama"},
	} {
		s := tinyLlama(false)
		c.change(s)
		dir := filepath.Join(t.TempDir(), "out")
		_, err := (Target{Write: writeDCP}).Run(t.Context(), s, dir, Options{Names: TorchTitan})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || exists(filepath.Dir(dir), "out") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
