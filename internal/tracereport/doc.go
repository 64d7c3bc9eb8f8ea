// Package tracereport sums up a trace: where the ranks spent the time of a step, which communication was exposed, for
// which rank the others waited, which units take longest, and how long a step would take without each of these.
//
// Each moment of a rank belongs to one class (timeline.go): the innermost span of its compute stream decides. While
// that waits, the collective that runs at the moment is exposed; until the last rank has reached it, the time is
// waiting on that rank. In traces of other programs a gap between kernels counts as a wait.
//
// The time of a step without a part comes from a replay (replay.go): every rank's work and collectives run again in
// their order, with their dependencies and measured lengths, but for that part.
package tracereport
