// Package gpt2 implements GPT-2 (Radford et al. 2019): a pre-norm decoder with absolute position
// embeddings, full attention, a GELU MLP and a tied head. gpt2.go is the network, config.go reads
// config.json, and weights.go has the parameter names in files.
package gpt2
