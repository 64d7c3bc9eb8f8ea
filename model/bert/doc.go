// Package bert implements BERT (Devlin et al. 2019): a post-norm encoder with absolute position and
// token type embeddings, for sequence classification or masked language modeling. bert.go is the
// encoder, classify.go and masked.go the heads, config.go reads config.json, and weights.go has the
// parameter names in files.
package bert
