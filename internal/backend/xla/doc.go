// Package xla runs the programs of a training step on GPUs, TPUs and CPUs by XLA, through the PJRT C
// API.
//
// A Backend records the operations of a program (tensor.Compile), writes them as one StableHLO module,
// compiles it once and executes it on this rank's device, its replica. The module is the same text on
// every rank: collectives are inside, and a rank's coordinates are inputs. Buffers that outlive a
// program are flat arrays on the device; those that a program changes are donated to it.
//
// Outside programs, operations run on the host: a buffer moves there when an operation uses it, and to
// the device when a program does.
//
// Composite operations are emitted as their formulas in tensor/compose, except those that this package has
// a better form of: attention, rotary positions, exact sums and random words.
package xla
