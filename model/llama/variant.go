package llama

import (
	"fmt"
	"slices"
	"strings"

	"trireme/fault"
)

// variant is a variant of the family. Variants differ in defaults of config.json, biases, windows
// and head norms.
type variant string

// The variants, named as model_type.
const (
	ofLlama   variant = "llama"
	ofMistral variant = "mistral" // Jiang et al. 2023
	ofQwen2   variant = "qwen2"   // Yang et al. 2024
	ofQwen3   variant = "qwen3"   // Yang et al. 2025
)

// variant returns the variant of a configuration.
func (c Config) variant() variant {
	name := c.ModelType
	if len(c.Architectures) > 0 {
		name = strings.ToLower(strings.TrimSuffix(c.Architectures[0], "ForCausalLM"))
	}
	switch r := variant(name); r {
	case ofMistral, ofQwen2, ofQwen3:
		return r
	}
	return ofLlama
}

// Variant names the variant of the family as model_type: llama, mistral, qwen2 or qwen3.
func (c Config) Variant() string { return string(c.variant()) }

// defaults returns the defaults of config.json.
func (r variant) defaults() Config {
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

// biases reports which attention projections have a bias.
func (c Config) biases() (qkv, out bool) {
	switch c.variant() {
	case ofQwen2:
		return true, false
	case ofMistral:
		return false, false
	}
	return c.AttentionBias, c.AttentionBias
}

// normsHeads reports whether query and key heads are normalized.
func (c Config) normsHeads() bool { return c.variant() == ofQwen3 }

const (
	slidingLayer = "sliding_attention"
	fullLayer    = "full_attention"
)

// Window returns the attention window of a layer, including the row itself; 0 is unlimited.
func (c Config) Window(layer int) int {
	if c.SlidingWindow == nil {
		return 0
	}
	slides := false
	switch c.variant() {
	case ofMistral:
		slides = true
	case ofQwen2, ofQwen3:
		slides = c.UseSlidingWindow && layer >= *c.MaxWindowLayers
	}
	if c.variant() != ofLlama && len(c.LayerTypes) > 0 {
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
			return fmt.Errorf("layer_types: %q is not supported: use %s or %s", k, fullLayer, slidingLayer)
		case k == slidingLayer && (c.SlidingWindow == nil || c.variant() == ofLlama):
			return fault.Try(fault.At("layer_types", "has layer %d as %s, but sliding_window is not set", i, k), `"sliding_window": 4096, or "%s" for that layer`, fullLayer)
		}
	}
	switch {
	case c.SlidingWindow != nil && (*c.SlidingWindow < 1 || *c.SlidingWindow > 1<<28) && c.slides():
		return fault.At("sliding_window", "is %d: it must be between 1 and %d", *c.SlidingWindow, 1<<28)
	case c.slides() && c.UseSlidingWindow && c.MaxWindowLayers == nil:
		return fault.Try(fault.At("use_sliding_window", "is true, but max_window_layers is null"), `"max_window_layers": 0, or "use_sliding_window": false`)
	case c.variant() == ofMistral && (c.AttentionBias || c.MLPBias):
		return fault.Try(fmt.Errorf("attention_bias or mlp_bias is true: %s has neither", c.variant()), "false for both")
	case c.MLPBias && c.variant() != ofLlama:
		return fault.Try(fault.At("mlp_bias", "is true: %s has none", c.variant()), `"mlp_bias": false`)
	}
	return nil
}

// slides reports whether any layer has a window.
func (c Config) slides() bool {
	return c.variant() == ofMistral || c.variant() != ofLlama && c.UseSlidingWindow || slices.Contains(c.LayerTypes, slidingLayer)
}
