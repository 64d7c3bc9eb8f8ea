// Package parallel shards a model's parameters, gradients and optimizer state over ranks.
//
// There is one Engine. A Strategy says which of the three are sharded; the rest follows from the
// ranges of elements that a rank owns (layout.go). Each unit has a flat parameter per optimizer: its
// parameters back to back, ordered by optimizer group and padded to divide evenly over ranks. An
// optimizer updates this rank's range of a flat in one call (update.go, tensorwise.go).
//
// The Engine is the nn.Observer of its units and knows the order in which they run (schedule.go).
// Before a unit runs, its flats are all-gathered if they are sharded, and the all-gathers of the next
// units start; after it runs, they are resharded unless they are needed soon (gather.go). In backward
// a unit's gradients are written to a bucket that is reduced while earlier units compute (reduce.go).
// One goroutine, the communication stream, runs all collectives in order (comm.go).
//
// Gradients are summed over micro-batches and ranks in the order of the global micro-batch index
// m = accumulation index * ranks + rank. A reduce-scatter that adds the ranks' contributions in rank
// order to a running shard is that order, so every world size and strategy gives the same bits at
// the same global batch.
package parallel
