// Package freetransformer implements the Free Transformer (Fleuret 2025, arXiv 2510.17558) and its
// plain baseline: a decoder whose upper half is conditioned on H random bits per position. In
// training an encoder samples the bits; in generation they are fair coins.
//
// The loss is the cross-entropy plus the KL divergence of the bits from fair coins above free_bits.
// latent_mode exact looks the code up in a table of 2^H rows, as in the paper; factored sums one
// vector per bit, for H whose table is too large.
package freetransformer
