package llama

import (
	"fmt"
	"slices"
	"strings"

	"trireme/fault"
)

// relative is a member of the family. They differ by what config.json leaves out, by biases,
// by windows, and by norms of heads.
type relative string

// The relatives, as model_type names them.
const (
	ofLlama   relative = "llama"
	ofMistral relative = "mistral" // Jiang et al. 2023
	ofQwen2   relative = "qwen2"   // Yang et al. 2024
	ofQwen3   relative = "qwen3"   // Yang et al. 2025
)

// relative is the member that a configuration describes.
func (c Config) relative() relative {
	name := c.ModelType
	if len(c.Architectures) > 0 {
		name = strings.ToLower(strings.TrimSuffix(c.Architectures[0], "ForCausalLM"))
	}
	switch r := relative(name); r {
	case ofMistral, ofQwen2, ofQwen3:
		return r
	}
	return ofLlama
}

// defaults are what a file that says nothing means.
func (r relative) defaults() Config {
	c := Config{HiddenAct: "silu", RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02, MaxPositionEmbeddings: 2048}
	window, layers := 4096, 28
	switch r {
	case ofMistral:
		c.MaxPositionEmbeddings = 131072
		c.SlidingWindow = &window
	case ofQwen2, ofQwen3:
		c.MaxPositionEmbeddings = 32768
		c.SlidingWindow, c.MaxWindowLayers = &window, &layers
	}
	if r == ofQwen3 {
		c.HeadDim = 128
	}
	return c
}

// biases says which projections of attention have one.
func (c Config) biases() (qkv, out bool) {
	switch c.relative() {
	case ofQwen2:
		return true, false
	case ofMistral:
		return false, false
	}
	return c.AttentionBias, c.AttentionBias
}

// normsHeads says whether each head of queries and keys is normalised.
func (c Config) normsHeads() bool { return c.relative() == ofQwen3 }

const (
	slidingLayer = "sliding_attention"
	fullLayer    = "full_attention"
)

// window is how many positions attention of a layer sees, its own among them; 0 is all.
func (c Config) window(layer int) int {
	if c.SlidingWindow == nil {
		return 0
	}
	slides := false
	switch c.relative() {
	case ofMistral:
		slides = true
	case ofQwen2, ofQwen3:
		slides = c.UseSlidingWindow && layer >= *c.MaxWindowLayers
	}
	if c.relative() != ofLlama && len(c.LayerTypes) > 0 {
		slides = c.LayerTypes[layer] == slidingLayer
	}
	if !slides {
		return 0
	}
	return *c.SlidingWindow
}

func (c Config) validateWindow() error {
	if n := len(c.LayerTypes); n > 0 && n != c.NumHiddenLayers {
		return fault.Try(fault.At("layer_types", "has %d entries for %d layers (num_hidden_layers)", n, c.NumHiddenLayers), `"num_hidden_layers": %d`, n)
	}
	for i, k := range c.LayerTypes {
		switch {
		case k != slidingLayer && k != fullLayer:
			return fmt.Errorf("layer_types: %q is not known: %s and %s are", k, fullLayer, slidingLayer)
		case k == slidingLayer && (c.SlidingWindow == nil || c.relative() == ofLlama):
			return fault.Try(fault.At("layer_types", "has layer %d as %s, and there is no sliding_window", i, k), `"sliding_window": 4096, or "%s" for that layer`, fullLayer)
		}
	}
	switch {
	case c.SlidingWindow != nil && (*c.SlidingWindow < 1 || *c.SlidingWindow > 1<<28) && c.slides():
		return fault.At("sliding_window", "is %d: it must be between 1 and %d", *c.SlidingWindow, 1<<28)
	case c.slides() && c.UseSlidingWindow && c.MaxWindowLayers == nil:
		return fault.Try(fault.At("use_sliding_window", "is true, and max_window_layers is null"), `"max_window_layers": 0, or "use_sliding_window": false`)
	case c.relative() == ofMistral && (c.AttentionBias || c.MLPBias):
		return fault.Try(fmt.Errorf("attention_bias or mlp_bias is true: %s has neither", c.relative()), "false for both")
	case c.MLPBias && c.relative() != ofLlama:
		return fault.Try(fault.At("mlp_bias", "is true: %s has none", c.relative()), `"mlp_bias": false`)
	}
	return nil
}

// slides says whether any layer has the window.
func (c Config) slides() bool {
	return c.relative() == ofMistral || c.relative() != ofLlama && c.UseSlidingWindow || slices.Contains(c.LayerTypes, slidingLayer)
}
