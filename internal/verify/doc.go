// Package verify describes a proof that a run has the same bits however it is run: which runs are compared, what each
// of them differs in, whether their results are equal, and the report. It starts nothing; internal/cli runs the trials.
//
// The reference is the first steps of the configuration on the smallest number of ranks. A Trial changes one thing: the
// number of ranks and the strategy, threads, the transport, recomputation, offloading, where the run stops and resumes.
// An Outcome has the loss and the gradient norm of each step and a digest of the weights and the optimizer state after
// the last one. Judge compares two of them bit by bit.
package verify
