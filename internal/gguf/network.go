package gguf

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"trireme/fault"
	"trireme/model"
	"trireme/model/gpt2"
	"trireme/model/llama"
)

// network is a model as llama.cpp reads it.
type network struct {
	arch     string // general.architecture
	metadata []KV
	vocab    int // rows of the embedding
	tensors  []mapped
	notes    []string // what llama.cpp computes differently
}

// order is the arrangement of a tensor's elements in the file.
type order int

const (
	asIs       order = iota
	transposed       // [in out] of a Conv1D as [out in]
	pairs            // rows of each head: halves, which rotate together, become neighbors
	constant         // values of the converter
)

// mapped is a tensor of the file, made from one of the model.
type mapped struct {
	name  string // in the file
	from  string // in the model
	shape []int  // in the file, row-major
	order order
	heads int       // of pairs
	exact bool      // always F32
	value []float32 // of constant
}

// newNetwork maps the model of a config.json.
func newNetwork(path string, config []byte) (*network, error) {
	var head struct {
		Architectures []string `json:"architectures"`
		ModelType     string   `json:"model_type"`
	}
	if err := model.Decode(config, &head); err != nil {
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	var n *network
	var err error
	switch is := func(f model.Family) bool {
		if len(head.Architectures) > 0 {
			return slices.Contains(f.Architectures, head.Architectures[0])
		}
		return slices.Contains(f.ModelTypes, head.ModelType)
	}; {
	case is(llama.Family):
		n, err = newLlama(config)
	case is(gpt2.Family):
		n, err = newGPT2(config)
	default:
		err = fault.Try(fmt.Errorf("llama.cpp has no architecture for %v, or none with its head", head.Architectures), "a Llama, Mistral, Qwen2, Qwen3 or GPT-2 model")
	}
	if err != nil {
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	return n, nil
}

// keys prefixes the keys of values with the architecture.
func (n *network) keys(values ...KV) {
	for _, kv := range values {
		n.metadata = append(n.metadata, KV{n.arch + "." + kv.Key, kv.Value})
	}
}

func (n *network) add(t mapped) { n.tensors = append(n.tensors, t) }

// linear adds a weight [out in] and, if it has one, a bias.
func (n *network) linear(name, from string, out, in int, o order, heads int, bias bool) {
	n.add(mapped{name: name + ".weight", from: from + ".weight", shape: []int{out, in}, order: o, heads: heads})
	if bias {
		if o == transposed {
			o = asIs
		}
		n.add(mapped{name: name + ".bias", from: from + ".bias", shape: []int{out}, order: o, heads: heads})
	}
}

func (n *network) norm(name, from string, width int, bias bool) {
	n.add(mapped{name: name + ".weight", from: from + ".weight", shape: []int{width}})
	if bias {
		n.add(mapped{name: name + ".bias", from: from + ".bias", shape: []int{width}})
	}
}

// newLlama maps Llama and its variants. llama.cpp rotates neighbors in the architecture llama and halves in those of
// Qwen, so rows of q and k are rearranged for the first.
func newLlama(config []byte) (*network, error) {
	c, err := llama.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	kind := c.Variant()
	n := &network{arch: kind, vocab: c.VocabSize}
	rotated := asIs
	if kind == "llama" || kind == "mistral" {
		n.arch, rotated = "llama", pairs
	}
	biased := kind == "qwen2" || kind == "llama" && c.AttentionBias
	if kind == "qwen3" && c.AttentionBias {
		return nil, fault.At("attention_bias", "is true: llama.cpp has no biases for Qwen3")
	}
	rotary, err := c.Rotary()
	if err != nil {
		return nil, err
	}
	d, f, e := c.HiddenSize, c.IntermediateSize, c.HeadDim
	n.keys(
		KV{"block_count", uint32(c.NumHiddenLayers)}, KV{"context_length", uint32(rotary.MaxPositions())},
		KV{"embedding_length", uint32(d)}, KV{"feed_forward_length", uint32(f)},
		KV{"attention.head_count", uint32(c.NumAttentionHeads)}, KV{"attention.head_count_kv", uint32(c.NumKeyValueHeads)},
		KV{"attention.key_length", uint32(e)}, KV{"attention.value_length", uint32(e)},
		KV{"attention.layer_norm_rms_epsilon", float32(c.RMSNormEps)},
		KV{"rope.dimension_count", uint32(e)}, KV{"rope.freq_base", float32(rotary.Theta)},
		KV{"vocab_size", uint32(c.VocabSize)},
	)
	if err := n.scaling(c); err != nil {
		return nil, err
	}
	n.add(mapped{name: "token_embd.weight", from: "model.embed_tokens.weight", shape: []int{c.VocabSize, d}})
	for i := range c.NumHiddenLayers {
		if w := c.Window(i); w > 0 && w < rotary.MaxPositions() && len(n.notes) == 0 {
			n.notes = append(n.notes, fmt.Sprintf("llama.cpp has no attention window for %s: logits differ beyond %d tokens", kind, w))
		}
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		q, kv := c.NumAttentionHeads*e, c.NumKeyValueHeads*e
		n.norm(to+"attn_norm", from+"input_layernorm", d, false)
		n.linear(to+"attn_q", from+"self_attn.q_proj", q, d, rotated, c.NumAttentionHeads, biased)
		n.linear(to+"attn_k", from+"self_attn.k_proj", kv, d, rotated, c.NumKeyValueHeads, biased)
		n.linear(to+"attn_v", from+"self_attn.v_proj", kv, d, asIs, 0, biased)
		n.linear(to+"attn_output", from+"self_attn.o_proj", d, q, asIs, 0, biased && kind == "llama")
		if kind == "qwen3" {
			n.norm(to+"attn_q_norm", from+"self_attn.q_norm", e, false)
			n.norm(to+"attn_k_norm", from+"self_attn.k_norm", e, false)
		}
		n.norm(to+"ffn_norm", from+"post_attention_layernorm", d, false)
		n.linear(to+"ffn_gate", from+"mlp.gate_proj", f, d, asIs, 0, c.MLPBias)
		n.linear(to+"ffn_up", from+"mlp.up_proj", f, d, asIs, 0, c.MLPBias)
		n.linear(to+"ffn_down", from+"mlp.down_proj", d, f, asIs, 0, c.MLPBias)
	}
	n.norm("output_norm", "model.norm", d, false)
	if !c.TieWordEmbeddings {
		n.add(mapped{name: "output.weight", from: "lm_head.weight", shape: []int{c.VocabSize, d}})
	}
	return n, nil
}

// scaling adds rope_scaling. That of Llama 3 is a divisor per frequency, in a tensor.
func (n *network) scaling(c llama.Config) error {
	r, err := c.Rotary()
	if err != nil || r.Scaling == nil {
		return err
	}
	s := *r.Scaling
	switch s.Type {
	case "linear":
		n.keys(KV{"rope.scaling.type", "linear"}, KV{"rope.scaling.factor", float32(s.Factor)})
	case "yarn":
		if s.AttentionFactor != nil || s.Fractional || s.BetaFast != 0 && s.BetaFast != 32 || s.BetaSlow != 0 && s.BetaSlow != 1 {
			return fault.At("rope_scaling", "has settings of yarn other than factor: llama.cpp has none for them")
		}
		original := s.OriginalMaxPositionEmbeddings
		if original == 0 {
			original = float64(r.MaxPosition)
		}
		n.keys(KV{"rope.scaling.type", "yarn"}, KV{"rope.scaling.factor", float32(s.Factor)}, KV{"rope.scaling.original_context_length", uint32(original)})
	case "llama3":
		scaled, err := r.Frequencies()
		if err != nil {
			return err
		}
		r.Scaling = nil
		plain, err := r.Frequencies()
		if err != nil {
			return err
		}
		divisors := make([]float32, len(plain))
		for i := range plain {
			divisors[i] = float32(plain[i] / scaled[i])
		}
		n.add(mapped{name: "rope_freqs.weight", shape: []int{len(divisors)}, order: constant, value: divisors})
	}
	return nil
}

// newGPT2 maps GPT-2, whose projections are stored as [in out].
func newGPT2(config []byte) (*network, error) {
	c, err := gpt2.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	switch {
	case c.ScaleAttnByInverseLayerIdx || !c.ScaleAttnWeights:
		return nil, fmt.Errorf("scale_attn_by_inverse_layer_idx or scale_attn_weights is not the default: llama.cpp has no such scale")
	case c.ActivationFunction == "gelu":
		return nil, fault.At("activation_function", "is gelu: llama.cpp computes its tanh approximation, gelu_new")
	}
	n := &network{arch: "gpt2", vocab: c.VocabSize}
	d, f := c.NEmbd, c.NInner
	n.keys(
		KV{"block_count", uint32(c.NLayer)}, KV{"context_length", uint32(c.NPositions)}, KV{"embedding_length", uint32(d)},
		KV{"feed_forward_length", uint32(f)}, KV{"attention.head_count", uint32(c.NHead)},
		KV{"attention.layer_norm_epsilon", float32(c.LayerNormEpsilon)}, KV{"vocab_size", uint32(c.VocabSize)},
	)
	n.add(mapped{name: "token_embd.weight", from: "transformer.wte.weight", shape: []int{c.VocabSize, d}})
	n.add(mapped{name: "position_embd.weight", from: "transformer.wpe.weight", shape: []int{c.NPositions, d}, exact: true})
	for i := range c.NLayer {
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("transformer.h.%d.", i)
		n.norm(to+"attn_norm", from+"ln_1", d, true)
		n.linear(to+"attn_qkv", from+"attn.c_attn", 3*d, d, transposed, 0, true)
		n.linear(to+"attn_output", from+"attn.c_proj", d, d, transposed, 0, true)
		n.norm(to+"ffn_norm", from+"ln_2", d, true)
		n.linear(to+"ffn_up", from+"mlp.c_fc", f, d, transposed, 0, true)
		n.linear(to+"ffn_down", from+"mlp.c_proj", d, f, transposed, 0, true)
	}
	n.norm("output_norm", "transformer.ln_f", d, true)
	if !c.TieWordEmbeddings {
		n.add(mapped{name: "output.weight", from: "lm_head.weight", shape: []int{c.VocabSize, d}})
	}
	return n, nil
}

// endOfText returns eos_token_id of a config.json, the first if there are several, or -1.
func endOfText(config []byte) int32 {
	var c struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if json.Unmarshal(config, &c) != nil {
		return -1
	}
	var ids []int32
	if json.Unmarshal(c.EOS, &ids) != nil {
		ids = make([]int32, 1)
		if json.Unmarshal(c.EOS, &ids[0]) != nil {
			return -1
		}
	}
	if len(ids) == 0 || ids[0] < 0 || ids[0] == math.MaxInt32 {
		return -1
	}
	return ids[0]
}
