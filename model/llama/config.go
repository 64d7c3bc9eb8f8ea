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

// mostParameters bounds a model, so that whatever is counted of it fits an int: a petabyte in
// bytes, a thousand times the largest there is.
const mostParameters = 1 << 48

// mostAngles bounds the tables of rotary embedding, which are made at once.
const mostAngles = 1 << 30

func (c Config) validate() error {
	for _, d := range []struct {
		key     string
		n, most int
	}{
		{"vocab_size", c.VocabSize, 1 << 28}, {"hidden_size", c.HiddenSize, 1 << 24}, {"intermediate_size", c.IntermediateSize, 1 << 26},
		{"num_hidden_layers", c.NumHiddenLayers, 1 << 14}, {"num_attention_heads", c.NumAttentionHeads, 1 << 16},
		{"num_key_value_heads", c.NumKeyValueHeads, 1 << 16}, {"head_dim", c.HeadDim, 1 << 14}, {"max_position_embeddings", c.MaxPositionEmbeddings, 1 << 28},
	} {
		if d.n <= 0 || d.n > d.most {
			return fmt.Errorf("%s is %d: it must be between 1 and %d", d.key, d.n, d.most)
		}
	}
	if n := c.size(); n > mostParameters {
		return fmt.Errorf("the sizes make %.3g parameters: at most %.3g can be", n, float64(mostParameters))
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
	case !(c.RopeTheta >= 1e-6 && c.RopeTheta <= 1e18):
		return fmt.Errorf("rope_theta is %v: it must be positive, between 1e-6 and 1e18", c.RopeTheta)
	case !(c.InitializerRange >= 0):
		return fmt.Errorf("initializer_range is %v: it must not be negative", c.InitializerRange)
	}
	_, err := c.rotary().Frequencies()
	return err
}

// size is the number of parameters, about, where an int might not hold it.
func (c Config) size() float64 {
	d, f, e := float64(c.HiddenSize), float64(c.IntermediateSize), float64(c.HeadDim)
	heads := e * float64(2*c.NumAttentionHeads+2*c.NumKeyValueHeads)
	return 2*float64(c.VocabSize)*d + float64(c.NumHiddenLayers)*(d+1)*(heads+3*f+2)
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
