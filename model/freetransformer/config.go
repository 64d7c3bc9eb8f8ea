package freetransformer

import (
	"slices"

	"trireme/fault"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

const (
	free     = "FreeTransformerForCausalLM"
	baseline = "FreeTransformerBaselineForCausalLM"
)

// Family is the Free Transformer.
var Family = model.Family{
	Name:          "freetransformer",
	Architectures: []string{free, baseline},
	ModelTypes:    []string{"free_transformer"},
	Modules:       []string{"DecoderBlock"},
	New: func(b tensor.Backend, config []byte, positions int) (model.Model, error) {
		c, err := ParseConfig(config)
		if err != nil {
			return nil, err
		}
		return New(b, c, positions)
	},
}

// Config is config.json.
type Config struct {
	Architectures         []string `json:"architectures"`
	VocabSize             int      `json:"vocab_size"`
	HiddenSize            int      `json:"hidden_size"`
	IntermediateSize      int      `json:"intermediate_size"`
	NumHiddenLayers       int      `json:"num_hidden_layers"` // even; the encoder adds one
	NumAttentionHeads     int      `json:"num_attention_heads"`
	NumKeyValueHeads      int      `json:"num_key_value_heads"` // 0: num_attention_heads
	HeadDim               int      `json:"head_dim"`            // 0: hidden_size / heads
	RMSNormEps            float64  `json:"rms_norm_eps"`
	RopeTheta             float64  `json:"rope_theta"`
	MaxPositionEmbeddings int      `json:"max_position_embeddings"`
	TieWordEmbeddings     bool     `json:"tie_word_embeddings"`
	InitializerRange      float64  `json:"initializer_range"`
	LatentBits            int      `json:"latent_bits"` // H; 0 is the baseline
	LatentMode            string   `json:"latent_mode"` // exact or factored
	FreeBits              float64  `json:"free_bits"`   // kappa, in bits per position
}

// The values of Config.LatentMode.
const (
	Exact    = "exact"
	Factored = "factored"
)

// maxExactBits limits the exact mode's table to 2^20 rows.
const maxExactBits = 20

// ParseConfig reads config.json with defaults and validates it.
func ParseConfig(data []byte) (Config, error) {
	c := Config{RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02, MaxPositionEmbeddings: 2048, LatentBits: 16, LatentMode: Exact, FreeBits: 0.5}
	if err := model.Decode(data, &c); err != nil {
		return Config{}, err
	}
	if slices.Contains(c.Architectures, baseline) {
		c.LatentBits = 0
	}
	if c.NumKeyValueHeads == 0 {
		c.NumKeyValueHeads = c.NumAttentionHeads
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
		if c.HeadDim*c.NumAttentionHeads != c.HiddenSize {
			return Config{}, fault.Try(fault.At("hidden_size", "%d is not a multiple of num_attention_heads %d", c.HiddenSize, c.NumAttentionHeads), `"hidden_size": %d`, model.NextMultiple(c.HiddenSize, c.NumAttentionHeads))
		}
	}
	return c, c.validate()
}

func (c Config) validate() error {
	if err := model.CheckSizes([]model.Size{
		{Key: "vocab_size", N: c.VocabSize, Max: 1 << 24},
		{Key: "hidden_size", N: c.HiddenSize, Max: 1 << 20},
		{Key: "intermediate_size", N: c.IntermediateSize, Max: 1 << 22},
		{Key: "num_hidden_layers", N: c.NumHiddenLayers, Max: 1 << 12},
		{Key: "num_attention_heads", N: c.NumAttentionHeads, Max: 1 << 12},
		{Key: "num_key_value_heads", N: c.NumKeyValueHeads, Max: 1 << 12},
		{Key: "head_dim", N: c.HeadDim, Max: 1 << 12},
		{Key: "max_position_embeddings", N: c.MaxPositionEmbeddings, Max: 1 << 22},
	}, c.size); err != nil {
		return err
	}
	switch {
	case c.NumAttentionHeads%c.NumKeyValueHeads != 0:
		return fault.Try(fault.At("num_attention_heads", "%d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads), `"num_key_value_heads": %d`, model.LargestDivisor(c.NumAttentionHeads, c.NumKeyValueHeads))
	case c.HeadDim%2 != 0:
		return fault.Try(fault.At("head_dim", "%d is odd: rotary embedding rotates pairs", c.HeadDim), `"head_dim": %d`, c.HeadDim+1)
	case c.LatentBits < 0 || c.LatentBits > 64:
		return fault.At("latent_bits", "is %d: it must be between 0 and 64", c.LatentBits)
	case c.LatentBits > 0 && c.NumHiddenLayers%2 != 0:
		return fault.Try(fault.At("num_hidden_layers", "%d is odd: the latent enters after half of the layers", c.NumHiddenLayers), `"num_hidden_layers": %d`, c.NumHiddenLayers+1)
	case c.LatentMode != Exact && c.LatentMode != Factored:
		return fault.At("latent_mode", "is %q: use exact or factored", c.LatentMode)
	case c.LatentMode == Exact && c.LatentBits > maxExactBits:
		return fault.Try(fault.At("latent_bits", "%d: a table of 2^%d rows is too large, exact mode supports up to %d bits", c.LatentBits, c.LatentBits, maxExactBits), `"latent_mode": "factored"`)
	case !(c.FreeBits >= 0):
		return fault.At("free_bits", "is %v: it must be 0 or more", c.FreeBits)
	case !(c.RMSNormEps > 0):
		return fault.At("rms_norm_eps", "is %v: it must be positive", c.RMSNormEps)
	case !(c.RopeTheta >= 1e-6 && c.RopeTheta <= 1e18):
		return fault.At("rope_theta", "is %v: it must be between 1e-6 and 1e18", c.RopeTheta)
	case !(c.InitializerRange >= 0):
		return fault.At("initializer_range", "is %v: it must not be negative", c.InitializerRange)
	}
	return nil
}

// size returns the approximate number of parameters without the latent's, as a float64 because an
// int may overflow.
func (c Config) size() float64 {
	d, f, e := float64(c.HiddenSize), float64(c.IntermediateSize), float64(c.HeadDim)
	heads := e * float64(2*c.NumAttentionHeads+2*c.NumKeyValueHeads)
	return 2*float64(c.VocabSize)*d + float64(c.NumHiddenLayers+1)*d*(heads+3*f+2)
}

func (c Config) rotary() nn.Rotary {
	return nn.Rotary{Dim: c.HeadDim, Theta: c.RopeTheta, MaxPosition: c.MaxPositionEmbeddings}
}
