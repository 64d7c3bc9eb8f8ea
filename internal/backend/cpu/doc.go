// Package cpu is the CPU backend: it checks shapes, splits operations over a pool of threads and
// calls internal/kernel. It splits rows and columns, or a sum at the same elements whatever the
// number of threads, so bits do not depend on it.
package cpu
