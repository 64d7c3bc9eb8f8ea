package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/gguf"
)

// TorchTitan is the Options.Names of torchtitan's Llama, which are those of Meta's own files.
const TorchTitan = "torchtitan"

// metaNames pairs Meta's names of a Llama with Hugging Face's; those of layers come after their number.
var metaNames = [][2]string{
	{"tok_embeddings.weight", "model.embed_tokens.weight"},
	{"norm.weight", "model.norm.weight"},
	{"output.weight", "lm_head.weight"},
	{"attention.wq.weight", "self_attn.q_proj.weight"},
	{"attention.wk.weight", "self_attn.k_proj.weight"},
	{"attention.wv.weight", "self_attn.v_proj.weight"},
	{"attention.wo.weight", "self_attn.o_proj.weight"},
	{"feed_forward.w1.weight", "mlp.gate_proj.weight"},
	{"feed_forward.w2.weight", "mlp.down_proj.weight"},
	{"feed_forward.w3.weight", "mlp.up_proj.weight"},
	{"attention_norm.weight", "input_layernorm.weight"},
	{"ffn_norm.weight", "post_attention_layernorm.weight"},
}

// notOfLayers is the number of metaNames that are not of layers.
const notOfLayers = 3

// isMeta reports whether the parameters have Meta's names.
func (s *Source) isMeta() bool {
	return slices.ContainsFunc(s.Tensors, func(t Tensor) bool { return t.Name == "layers.0.attention.wq.weight" })
}

// metaHeads has the keys of config.json that order the rows of q and k.
type metaHeads struct {
	Type  string `json:"model_type"`
	Query int    `json:"num_attention_heads"`
	Keys  int    `json:"num_key_value_heads"`
}

func (o Options) heads(s *Source) (h metaHeads, err error) {
	b, path, err := o.configOf(s)
	switch {
	case err != nil:
		return h, err
	case b == nil:
		return h, fault.Try(fmt.Errorf("convert: %s: the order of the rows of q and k differs between torchtitan and Hugging Face, by the number of heads", s.Path), "--model DIR with config.json")
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return h, fmt.Errorf("convert: %s: %w", path, err)
	}
	if h.Keys == 0 {
		h.Keys = h.Query
	}
	if h.Type != "llama" || h.Query <= 0 || h.Keys < 0 {
		return h, fmt.Errorf("convert: %s: torchtitan's names are those of a Llama, not of model_type %q with %d and %d heads", path, h.Type, h.Query, h.Keys)
	}
	return h, nil
}

// fromMeta gives the tensors Hugging Face's names, and the rows of q and k its order.
func (s *Source) fromMeta(h metaHeads) error {
	renamed := make([]Tensor, 0, len(s.Tensors))
	var others []string // such as train_state.step and rope.freqs
	for _, t := range s.Tensors {
		if !strings.HasPrefix(t.Name, "layers.") && !slices.ContainsFunc(metaNames[:notOfLayers], func(n [2]string) bool { return n[0] == t.Name }) {
			others = append(others, t.String())
			continue
		}
		t, err := h.rename(t, 0)
		if err != nil {
			return fmt.Errorf("convert: %s: %w", s.Path, err)
		}
		renamed = append(renamed, t)
	}
	if s.Tensors = renamed; len(others) > 0 {
		s.note("left out, not parameters: %s", few(others))
	}
	return nil
}

// toMeta returns parameters under Meta's names and in its order. A model with a tied output gets a copy: torchtitan ties none.
func (h metaHeads) toMeta(params []Tensor) ([]Tensor, error) {
	renamed := make([]Tensor, 0, len(params)+1)
	embedding, output := -1, false
	for _, t := range params {
		t, err := h.rename(t, 1)
		if err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
		if t.Name == metaNames[0][0] {
			embedding = len(renamed)
		}
		output = output || t.Name == metaNames[2][0]
		renamed = append(renamed, t)
	}
	if embedding >= 0 && !output {
		tied := renamed[embedding]
		tied.Name = metaNames[2][0]
		renamed = append(renamed, tied)
	}
	return renamed, nil
}

// rename renames a tensor from column of metaNames to the other, and orders rows of q and k.
func (h metaHeads) rename(t Tensor, column int) (Tensor, error) {
	prefixes := [2]string{"layers.", "model.layers."}
	layer, name := "", t.Name
	if rest, ok := strings.CutPrefix(t.Name, prefixes[column]); ok {
		layer, name, _ = strings.Cut(rest, ".")
	}
	i := slices.IndexFunc(metaNames, func(n [2]string) bool { return n[column] == name })
	if i < 0 || (layer == "") != (i < notOfLayers) {
		return t, fmt.Errorf("%s is not a tensor of a Llama with %s names", t.Name, [2]string{"torchtitan's", "Hugging Face's"}[column])
	}
	heads := 0
	switch metaNames[i][0] {
	case "attention.wq.weight":
		heads = h.Query
	case "attention.wk.weight":
		heads = h.Keys
	}
	if heads > 0 {
		if len(t.Shape) != 2 || t.Shape[0]%(2*heads) != 0 {
			return t, fmt.Errorf("%s has no %d heads with halves", t, heads)
		}
		t = t.reordered(t.Shape[0]/heads, column == 0)
	}
	if t.Name = metaNames[i][1-column]; layer != "" {
		t.Name = prefixes[1-column] + layer + "." + t.Name
	}
	return t, nil
}

// reordered orders the rows of heads of a size: Hugging Face has first those of the first coordinates of all pairs that
// rotate together, then those of the second ones; Meta has the two of a pair beside each other.
func (t Tensor) reordered(size int, fromMeta bool) Tensor {
	width, bytes, read := t.Shape[1], t.Type.Size(), t.Read
	t.Read = func(first, count int, dst []byte) error {
		for done := 0; done < count; {
			row, column := (first+done)/width, (first+done)%width
			from := gguf.HalfRow(row, size) // llama.cpp has Meta's order
			if fromMeta {
				in := row % size
				from = row - in + in%(size/2)*2 + in/(size/2)
			}
			n := min(width-column, count-done)
			if err := read(from*width+column, n, dst[done*bytes:(done+n)*bytes]); err != nil {
				return err
			}
			done += n
		}
		return nil
	}
	return t
}

// renamed returns the parameters to write to a DCP directory.
func (o Options) renamed(s *Source, params []Tensor) ([]Tensor, error) {
	if o.Names != TorchTitan || s.isMeta() {
		return params, nil
	}
	h, err := o.heads(s)
	if err != nil {
		return nil, err
	}
	return h.toMeta(params)
}

// inHuggingFace gives a source with Meta's names those that all targets but torchtitan's have.
func (o Options) inHuggingFace(s *Source) error {
	if o.Names == TorchTitan || !s.isMeta() {
		return nil
	}
	h, err := o.heads(s)
	if err != nil {
		return err
	}
	s.Format += " with torchtitan's names"
	return s.fromMeta(h)
}
