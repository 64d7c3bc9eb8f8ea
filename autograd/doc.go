// Package autograd records operations as they run and differentiates them in reverse.
//
// A Var is a value with its gradient. A Tape records one forward pass: each method runs an
// operation at once and records its backward, if a gradient is required. Forward and backward of an
// operation are in one file.
//
// Memory is explicit. A value is freed at the end of its scope (a Unit of package nn), or after the
// backward of the last operation that saved it. Results that are cheap to recompute from saved ones
// (of norms, of SwiGLU) are not saved; backward recomputes them with the same bits. Checkpoint and
// CheckpointSequence recompute whole functions.
//
// The package is independent of ranks, units and optimizers: a parameter is a Var whose GradDst
// returns its gradient's destination.
package autograd
