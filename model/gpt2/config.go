package gpt2

import (
	"math"

	"trireme/fault"
	"trireme/model"
	"trireme/tensor"
)

// Family is GPT-2.
var Family = model.Family{
	Name:          "gpt2",
	Architectures: []string{"GPT2LMHeadModel"},
	ModelTypes:    []string{"gpt2"},
	Bases:         []string{"GPT2Model"},
	Modules:       []string{"*Block", "*Attention", "*MLP", "*Model"},
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
	Architectures      []string `json:"architectures"`
	ModelType          string   `json:"model_type"`
	ActivationFunction string   `json:"activation_function"`
	VocabSize          int      `json:"vocab_size"`
	NEmbd              int      `json:"n_embd"`
	NLayer             int      `json:"n_layer"`
	NHead              int      `json:"n_head"`
	NInner             int      `json:"n_inner,omitempty"` // 0: 4 n_embd
	NPositions         int      `json:"n_positions"`
	LayerNormEpsilon   float64  `json:"layer_norm_epsilon"`
	EmbdPDrop          float64  `json:"embd_pdrop"`
	AttnPDrop          float64  `json:"attn_pdrop"`
	ResidPDrop         float64  `json:"resid_pdrop"`
	InitializerRange   float64  `json:"initializer_range"`
	TieWordEmbeddings  bool     `json:"tie_word_embeddings"`

	// Attention scores are divided by sqrt(head size) if ScaleAttnWeights, and by the layer number
	// (from 1) if ScaleAttnByInverseLayerIdx.
	ScaleAttnWeights           bool `json:"scale_attn_weights"`
	ScaleAttnByInverseLayerIdx bool `json:"scale_attn_by_inverse_layer_idx"`

	AddCrossAttention bool `json:"add_cross_attention,omitempty"`
	Quantization      any  `json:"quantization_config,omitempty"`
}

// ParseConfig reads config.json with transformers' defaults and validates it.
func ParseConfig(data []byte) (Config, error) {
	c := Config{
		ActivationFunction: "gelu_new", NPositions: 1024, LayerNormEpsilon: 1e-5, EmbdPDrop: 0.1, AttnPDrop: 0.1, ResidPDrop: 0.1,
		InitializerRange: 0.02, TieWordEmbeddings: true, ScaleAttnWeights: true,
	}
	if err := model.Decode(data, &c); err != nil {
		return Config{}, err
	}
	if c.NInner == 0 {
		c.NInner = 4 * c.NEmbd
	}
	return c, c.validate()
}

func (c Config) validate() error {
	if err := model.CheckSizes([]model.Size{
		{Key: "vocab_size", N: c.VocabSize, Max: 1 << 28},
		{Key: "n_embd", N: c.NEmbd, Max: 1 << 24},
		{Key: "n_inner", N: c.NInner, Max: 1 << 26},
		{Key: "n_layer", N: c.NLayer, Max: 1 << 14},
		{Key: "n_head", N: c.NHead, Max: 1 << 16},
		{Key: "n_positions", N: c.NPositions, Max: 1 << 28},
	}, c.size); err != nil {
		return err
	}
	for _, d := range []struct {
		key string
		p   float64
	}{{"embd_pdrop", c.EmbdPDrop}, {"attn_pdrop", c.AttnPDrop}, {"resid_pdrop", c.ResidPDrop}} {
		if err := model.CheckDropout(d.key, d.p); err != nil {
			return err
		}
	}
	switch {
	case c.NEmbd%c.NHead != 0:
		return fault.Try(fault.At("n_embd", "%d is not a multiple of n_head %d", c.NEmbd, c.NHead), `"n_embd": %d`, model.NextMultiple(c.NEmbd, c.NHead))
	case !(c.LayerNormEpsilon > 0):
		return fault.At("layer_norm_epsilon", "is %v: it must be positive", c.LayerNormEpsilon)
	case !(c.InitializerRange >= 0):
		return fault.At("initializer_range", "is %v: it must not be negative", c.InitializerRange)
	case c.AddCrossAttention:
		return fault.Try(fault.At("add_cross_attention", "is true: there is no encoder to attend to"), `"add_cross_attention": false`)
	case c.Quantization != nil:
		return fault.Try(fault.At("quantization_config", "is set: quantized weights cannot be trained"), "the original model")
	}
	_, err := model.GELU(c.ActivationFunction)
	if err != nil {
		return fault.At("activation_function", "%w", err)
	}
	return nil
}

// size returns the approximate number of parameters, as a float64 because an int may overflow.
func (c Config) size() float64 {
	d, f := float64(c.NEmbd), float64(c.NInner)
	return (2*float64(c.VocabSize)+float64(c.NPositions))*d + float64(c.NLayer)*(d+1)*(4*d+2*f+8)
}

// scale returns the factor of a layer's attention scores.
func (c Config) scale(layer int) float64 {
	s := 1.0
	if c.ScaleAttnWeights {
		s /= math.Sqrt(float64(c.NEmbd / c.NHead))
	}
	if c.ScaleAttnByInverseLayerIdx {
		s /= float64(layer + 1)
	}
	return s
}
