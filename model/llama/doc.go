// Package llama is the Llama family (Touvron et al. 2023, Grattafiori et al. 2024): a decoder
// with pre-normalisation, rotary positions, grouped-query attention and a gated MLP. llama.go
// is the network, config.go reads config.json, relative.go says what Mistral, Qwen2 and Qwen3 do
// otherwise, weights.go knows what files call the parameters.
package llama
