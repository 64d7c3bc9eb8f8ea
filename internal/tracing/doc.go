// Package tracing keeps the spans of the steps that a user asked for, and writes those of all ranks to one file.
//
// Each rank has a Collector. Its recorder records always (package trace); while a window of steps runs, the Collector
// copies the spans after each step. After the window a goroutine sends them to rank 0 by the store of the job, with
// the offset of this rank's clock, so no step waits and no shared file system is needed. Rank 0 writes
// DIR/steps-10-12.perfetto-trace.
//
// Windows come from the command line (ParseWindow), or from a file Request that a user puts into the run's directory:
// rank 0 sees it, and the ranks agree with the sums of a step.
package tracing
