// Package generate continues a sequence of token ids with a model, one token after the other.
// Randomness is counter-based: the same seed and prompt give the same text anywhere.
package generate
