// Package parallel divides a model's parameters, gradients and optimizer state among ranks.
//
// There is one Engine. A Strategy is data: which of the three are divided; everything else
// follows from the ranges of elements that a rank holds (layout.go). The parameters of a unit lie
// one after the other in a flat tensor for each optimizer, in order of their groups, padded so that
// it divides evenly; an update is one call for what a rank has of a flat (update.go, joint.go).
//
// During a step the Engine watches units (it is their nn.Observer). It knows in which order they
// will run (schedule.go): before a unit computes its flat is gathered, if it is divided, and gathers
// of those that run next are begun; after it computes the gathered copy is freed, unless it is
// needed again soon (gather.go). In backward a unit's gradients are written to a bucket, and the
// bucket's reduction runs while earlier units still compute. Collectives run in the order of
// issue on one goroutine (comm.go).
//
// Sums over micro-batches and ranks are made in one order: that of the global micro-batch
// index m = accumulation index * ranks + rank, one after the other. A reduce-scatter that adds
// the ranks' contributions in order to a running shard is that order, so all world sizes and
// strategies have the same bits at the same global batch.
package parallel
