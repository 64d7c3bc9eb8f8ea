// Package cpu is the CPU backend: it checks shapes, splits operations over a pool of threads and
// calls internal/kernel. It splits rows and columns, never the dimension of a sum, so bits do not
// depend on the number of threads.
package cpu
