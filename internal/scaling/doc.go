// Package scaling describes a scaling experiment: which trials it needs, where the lost efficiency went, and
// its report. It starts nothing; internal/cli runs the trials.
//
// A Cell is a strategy on a number of ranks. Its efficiency is the throughput per rank over that of one rank.
// Besides the cell's own run, three trials of one rank separate causes: the full job, the share of the work that
// a rank of the cell has, and N independent copies of that share at the same time, for a cell of N ranks.
package scaling
