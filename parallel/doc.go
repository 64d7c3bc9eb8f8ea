// Package parallel shards a model's parameters, gradients and optimizer state over ranks.
//
// There is one Engine. A Strategy says which of the three are sharded. Each unit has a flat parameter per
// optimizer: its parameters back to back, ordered by group and padded to divide evenly over ranks
// (layout.go). An optimizer updates this rank's range of a flat in one call (update.go, tensorwise.go).
//
// The Engine observes the units. Before a unit runs, its sharded flats are all-gathered, and so are the
// next units' in the order of the schedule (schedule.go); afterwards they are resharded unless needed soon
// (gather.go). In backward, gradients are written to buckets, which are reduced while earlier units compute
// (reduce.go). One goroutine, the communication stream, runs all collectives in order (comm.go).
//
// Gradients are summed in the order of the global micro-batch index m = accumulation index * ranks + rank,
// which a reduce-scatter in rank order onto a running shard keeps. So every world size and strategy gives
// the same bits at the same global batch.
package parallel
