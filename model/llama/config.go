package llama

import (
	"trireme/fault"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// Family is Llama and its variants.
var Family = model.Family{
	Name:          "llama",
	Architectures: []string{"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"},
	ModelTypes:    []string{"llama", "mistral", "qwen2", "qwen3"},
	Bases:         []string{"LlamaModel", "MistralModel", "Qwen2Model", "Qwen3Model"},
	Modules:       []string{"*DecoderLayer", "*Attention", "*MLP", "*RMSNorm", "*Model"},
	New: func(b tensor.Backend, config []byte, positions int) (model.Model, error) {
		c, err := ParseConfig(config)
		if err != nil {
			return nil, err
		}
		return New(b, c, positions)
	},
	Aliases:          aliases,
	IgnoreUnexpected: ignoreUnexpected,
}

// Config is the part of config.json that defines the network.
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
	RopeParameters        *RopeScaling `json:"rope_parameters,omitempty"` // newer files: rope_theta and rope_scaling
	MaxPositionEmbeddings int          `json:"max_position_embeddings"`
	TieWordEmbeddings     bool         `json:"tie_word_embeddings"`
	AttentionBias         bool         `json:"attention_bias,omitempty"`
	MLPBias               bool         `json:"mlp_bias,omitempty"`
	AttentionDropout      float64      `json:"attention_dropout,omitempty"`
	SlidingWindow         *int         `json:"sliding_window,omitempty"` // nil: none
	UseSlidingWindow      bool         `json:"use_sliding_window,omitempty"`
	MaxWindowLayers       *int         `json:"max_window_layers,omitempty"` // with UseSlidingWindow, the first layer with the window
	LayerTypes            []string     `json:"layer_types,omitempty"`
	InitializerRange      float64      `json:"initializer_range,omitempty"`
	PadTokenID            *int         `json:"pad_token_id,omitempty"` // embedding row without gradient; nil for none
	TorchDType            string       `json:"torch_dtype,omitempty"`
	PartialRotaryFactor   *float64     `json:"partial_rotary_factor,omitempty"`
	Quantization          any          `json:"quantization_config,omitempty"`
}

// RopeScaling is config.json's rope_scaling; older files have type instead of rope_type.
type RopeScaling struct {
	RopeType                      string   `json:"rope_type,omitempty"`
	Type                          string   `json:"type,omitempty"`
	RopeTheta                     float64  `json:"rope_theta,omitempty"` // in rope_parameters
	PartialRotaryFactor           *float64 `json:"partial_rotary_factor,omitempty"`
	Factor                        float64  `json:"factor,omitempty"`
	LowFreqFactor                 float64  `json:"low_freq_factor,omitempty"`
	HighFreqFactor                float64  `json:"high_freq_factor,omitempty"`
	OriginalMaxPositionEmbeddings float64  `json:"original_max_position_embeddings,omitempty"`
	AttentionFactor               *float64 `json:"attention_factor,omitempty"`
	BetaFast                      float64  `json:"beta_fast,omitempty"`
	BetaSlow                      float64  `json:"beta_slow,omitempty"`
	MScale                        *float64 `json:"mscale,omitempty"`
	MScaleAllDim                  *float64 `json:"mscale_all_dim,omitempty"`
	Truncate                      *bool    `json:"truncate,omitempty"`
}

// ParseConfig reads config.json with transformers' defaults and validates it.
func ParseConfig(data []byte) (Config, error) {
	var c Config
	if err := model.Decode(data, &c); err != nil {
		return Config{}, err
	}
	c = c.variant().defaults()
	if err := model.Decode(data, &c); err != nil {
		return Config{}, err
	}
	if c.NumKeyValueHeads == 0 {
		c.NumKeyValueHeads = c.NumAttentionHeads
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
		if c.HeadDim*c.NumAttentionHeads != c.HiddenSize {
			return Config{}, fault.Try(fault.At("hidden_size", "%d is not a multiple of num_attention_heads %d", c.HiddenSize, c.NumAttentionHeads), `"hidden_size": %d, or "head_dim", where heads have another size`, model.NextMultiple(c.HiddenSize, c.NumAttentionHeads))
		}
	}
	return c, c.validate()
}

// maxAngles limits the size of the rotary tables.
const maxAngles = 1 << 30

func (c Config) validate() error {
	if err := model.CheckSizes([]model.Size{
		{Key: "vocab_size", N: c.VocabSize, Max: 1 << 28},
		{Key: "hidden_size", N: c.HiddenSize, Max: 1 << 24},
		{Key: "intermediate_size", N: c.IntermediateSize, Max: 1 << 26},
		{Key: "num_hidden_layers", N: c.NumHiddenLayers, Max: 1 << 14},
		{Key: "num_attention_heads", N: c.NumAttentionHeads, Max: 1 << 16},
		{Key: "num_key_value_heads", N: c.NumKeyValueHeads, Max: 1 << 16},
		{Key: "head_dim", N: c.HeadDim, Max: 1 << 14},
		{Key: "max_position_embeddings", N: c.MaxPositionEmbeddings, Max: 1 << 28},
	}, c.size); err != nil {
		return err
	}
	switch {
	case c.NumAttentionHeads%c.NumKeyValueHeads != 0:
		return fault.Try(fault.At("num_attention_heads", "%d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads), `"num_key_value_heads": %d`, model.LargestDivisor(c.NumAttentionHeads, c.NumKeyValueHeads))
	case c.HeadDim%2 != 0:
		return fault.Try(fault.At("head_dim", "%d is odd: rotary embedding rotates pairs", c.HeadDim), `"head_dim": %d`, c.HeadDim+1)
	case c.HiddenAct != "silu" && c.HiddenAct != "swish":
		return fault.Try(fault.At("hidden_act", "%q is not supported by %s: use silu", c.HiddenAct, c.variant()), `"hidden_act": "silu"`)
	case !(c.RMSNormEps > 0):
		return fault.At("rms_norm_eps", "is %v: it must be positive", c.RMSNormEps)
	case !(c.InitializerRange >= 0):
		return fault.At("initializer_range", "is %v: it must not be negative", c.InitializerRange)
	case c.Quantization != nil:
		return fault.Try(fault.At("quantization_config", "is set: quantized weights cannot be trained"), "the original model")
	}
	if err := model.CheckDropout("attention_dropout", c.AttentionDropout); err != nil {
		return err
	}
	if err := c.validateWindow(); err != nil {
		return err
	}
	r, err := c.Rotary()
	if err == nil {
		_, err = r.Frequencies()
	}
	return err
}

// size returns the approximate number of parameters, as a float64 because an int may overflow.
func (c Config) size() float64 {
	d, f, e := float64(c.HiddenSize), float64(c.IntermediateSize), float64(c.HeadDim)
	heads := e * float64(2*c.NumAttentionHeads+2*c.NumKeyValueHeads)
	return 2*float64(c.VocabSize)*d + float64(c.NumHiddenLayers)*(d+1)*(heads+3*f+2)
}

// Rotary returns the position embedding, from rope_parameters if present.
func (c Config) Rotary() (nn.Rotary, error) {
	s, theta := c.RopeScaling, c.RopeTheta
	if c.RopeParameters != nil {
		s = c.RopeParameters
		if s.RopeTheta != 0 {
			theta = s.RopeTheta
		}
	}
	r := nn.Rotary{Dim: c.HeadDim, Theta: theta, MaxPosition: c.MaxPositionEmbeddings}
	part := c.PartialRotaryFactor
	if s != nil && s.PartialRotaryFactor != nil {
		part = s.PartialRotaryFactor
	}
	switch {
	case !(theta > 1 && theta <= 1e18):
		return r, fault.At("rope_theta", "is %v: it must be above 1, up to 1e18", theta)
	case part != nil && *part != 1:
		return r, fault.Try(fault.At("partial_rotary_factor", "is %v: %s rotates whole heads", *part, c.variant()), `"partial_rotary_factor": 1`)
	case s == nil:
		return r, nil
	case s.MScale != nil || s.MScaleAllDim != nil:
		return r, fault.Try(fault.At("rope_scaling", "has mscale, which %s does not support", c.variant()), "rope_scaling without mscale and mscale_all_dim")
	}
	kind := s.RopeType
	if kind == "" {
		kind = s.Type
	}
	r.Scaling = &nn.RopeScaling{
		Type: kind, Factor: s.Factor, LowFreqFactor: s.LowFreqFactor, HighFreqFactor: s.HighFreqFactor,
		OriginalMaxPositionEmbeddings: s.OriginalMaxPositionEmbeddings,
		AttentionFactor:               s.AttentionFactor, BetaFast: s.BetaFast, BetaSlow: s.BetaSlow, Fractional: s.Truncate != nil && !*s.Truncate,
	}
	return r, nil
}
