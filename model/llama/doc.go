// Package llama implements the Llama family (Touvron et al. 2023, Grattafiori et al. 2024): a
// pre-norm decoder with rotary positions, grouped-query attention and a gated MLP. llama.go is the
// network, config.go reads config.json, variant.go has the differences of Mistral, Qwen2 and Qwen3,
// and weights.go the parameter names in files.
package llama
