// Package generate samples tokens from a causal language model. Random numbers are counter-based: the
// same seed and prompt give the same text on any machine.
package generate
