package llama

import (
	"fmt"

	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// Family is Llama for a program's registry.
var Family = model.Family{
	Name:          "llama",
	Architectures: []string{"LlamaForCausalLM"},
	ModelTypes:    []string{"llama"},
	New: func(b tensor.Backend, config []byte, positions int) (model.Model, error) {
		c, err := ParseConfig(config)
		if err != nil {
			return nil, err
		}
		return New(b, c, positions)
	},
}

// Config is the part of Hugging Face's config.json that decides the network.
type Config struct {
	Architectures         []string     `json:"architectures"`
	ModelType             string       `json:"model_type"`
	HiddenAct             string       `json:"hidden_act"`
	VocabSize             int          `json:"vocab_size"`
	HiddenSize            int          `json:"hidden_size"`
	IntermediateSize      int          `json:"intermediate_size"`
	NumHiddenLayers       int          `json:"num_hidden_layers"`
	NumAttentionHeads     int          `json:"num_attention_heads"`
	NumKeyValueHeads      int          `json:"num_key_value_heads"`
	HeadDim               int          `json:"head_dim,omitempty"`
	RMSNormEps            float64      `json:"rms_norm_eps"`
	RopeTheta             float64      `json:"rope_theta"`
	RopeScaling           *RopeScaling `json:"rope_scaling,omitempty"`
	MaxPositionEmbeddings int          `json:"max_position_embeddings"`
	TieWordEmbeddings     bool         `json:"tie_word_embeddings"`
	AttentionBias         bool         `json:"attention_bias,omitempty"`
	MLPBias               bool         `json:"mlp_bias,omitempty"`
	InitializerRange      float64      `json:"initializer_range,omitempty"`
	BOSTokenID            any          `json:"bos_token_id,omitempty"`
	EOSTokenID            any          `json:"eos_token_id,omitempty"`
	TorchDType            string       `json:"torch_dtype,omitempty"`
}

// RopeScaling is config.json's rope_scaling; older files say type for rope_type.
type RopeScaling struct {
	RopeType                      string  `json:"rope_type,omitempty"`
	Type                          string  `json:"type,omitempty"`
	Factor                        float64 `json:"factor,omitempty"`
	LowFreqFactor                 float64 `json:"low_freq_factor,omitempty"`
	HighFreqFactor                float64 `json:"high_freq_factor,omitempty"`
	OriginalMaxPositionEmbeddings float64 `json:"original_max_position_embeddings,omitempty"`
}

// ParseConfig reads config.json, fills in what it leaves out as transformers does, and
// refuses what cannot be.
func ParseConfig(data []byte) (Config, error) {
	c := Config{HiddenAct: "silu", RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02, MaxPositionEmbeddings: 2048}
	if err := model.Decode(data, &c); err != nil {
		return Config{}, err
	}
	if c.NumKeyValueHeads == 0 {
		c.NumKeyValueHeads = c.NumAttentionHeads
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
		if c.HeadDim*c.NumAttentionHeads != c.HiddenSize {
			return Config{}, fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d", c.HiddenSize, c.NumAttentionHeads)
		}
	}
	return c, c.validate()
}

// largest bounds each extent, so that products of two fit an int with room to spare.
const largest = 1 << 28

func (c Config) validate() error {
	for _, d := range []struct {
		key string
		n   int
	}{
		{"vocab_size", c.VocabSize}, {"hidden_size", c.HiddenSize}, {"intermediate_size", c.IntermediateSize},
		{"num_hidden_layers", c.NumHiddenLayers}, {"num_attention_heads", c.NumAttentionHeads},
		{"num_key_value_heads", c.NumKeyValueHeads}, {"head_dim", c.HeadDim}, {"max_position_embeddings", c.MaxPositionEmbeddings},
	} {
		if d.n <= 0 || d.n > largest {
			return fmt.Errorf("%s is %d: it must be between 1 and %d", d.key, d.n, largest)
		}
	}
	switch {
	case c.NumAttentionHeads%c.NumKeyValueHeads != 0:
		return fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("head_dim %d is odd: rotary embedding rotates pairs", c.HeadDim)
	case c.HiddenAct != "silu" && c.HiddenAct != "swish":
		return fmt.Errorf("hidden_act %q is not known for llama: silu is", c.HiddenAct)
	case !(c.RMSNormEps > 0):
		return fmt.Errorf("rms_norm_eps is %v: it must be positive", c.RMSNormEps)
	case !(c.RopeTheta > 0):
		return fmt.Errorf("rope_theta is %v: it must be positive", c.RopeTheta)
	}
	_, err := c.rotary().Frequencies()
	return err
}

func (c Config) rotary() nn.Rotary {
	r := nn.Rotary{Dim: c.HeadDim, Theta: c.RopeTheta, MaxPosition: c.MaxPositionEmbeddings}
	if s := c.RopeScaling; s != nil {
		kind := s.RopeType
		if kind == "" {
			kind = s.Type
		}
		r.Scaling = &nn.RopeScaling{
			Type: kind, Factor: s.Factor, LowFreqFactor: s.LowFreqFactor, HighFreqFactor: s.HighFreqFactor,
			OriginalMaxPositionEmbeddings: s.OriginalMaxPositionEmbeddings,
		}
	}
	return r
}
