// Package cpu is the backend that runs: it checks shapes, splits each operation over a pool
// of threads and hands slices to internal/kernel. Work is split over rows and columns, never
// over the dimension of a sum, so the number of threads does not change a bit.
package cpu
