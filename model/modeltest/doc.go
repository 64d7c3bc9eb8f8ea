// Package modeltest tests the networks of a model family: gradients for all kinds of batches, and
// recomputation without any change of bits.
package modeltest
