package kernel

import "unsafe"

// rowDepth is the multiple of k that kernels of one row need.
const rowDepth = 32

// rowKernel computes columns of a product of one row x, floats or pairs, with a transposed matrix w. Words of w are floats or
// pairs of bfloat16. out has a sum for each column; there are no more than rowColumns.
type rowKernel struct {
	columns int
	pairs   bool // x is pairs
	run     func(steps int, x, w *float32, ldw int, out *float32)
}

const rowColumns = 16

// gemmRow is Gemm for the first columns of one row and a transposed b, and returns their number. It reads b once, without
// packing it.
func gemmRow(c, a, b Matrix, n, k int, accumulate bool, scratch []float32) (done int) {
	if a.Trans || !b.Trans || b.Half || k%rowDepth != 0 || b.H != nil && b.LD%2 != 0 {
		return 0
	}
	f := rowKernelFor(a, b)
	if f.run == nil || n < f.columns {
		return 0
	}
	x, sums := scratch[:k], scratch[k:][:f.columns]
	switch {
	case f.pairs:
		swapPairs(x, a.H[:k])
	case a.H != nil:
		a.widen(x, a.H[:k])
	default:
		x = a.F[:k]
	}
	for ; done+f.columns <= n; done += f.columns {
		w, ldw := b.From(0, done), b.LD
		first := unsafe.Pointer(unsafe.SliceData(w.F))
		if w.H != nil {
			first, ldw = unsafe.Pointer(unsafe.SliceData(w.H)), ldw/2
		}
		f.run(k/rowDepth, &x[0], (*float32)(first), ldw, &sums[0])
		storeRow(c.From(0, done), sums, accumulate)
	}
	return done
}

// storeRow writes finished sums to c.
func storeRow(c Matrix, sums []float32, accumulate bool) {
	n := len(sums)
	if c.H == nil {
		if accumulate {
			add(sums, c.F[:n], sums)
		}
		copy(c.F, sums)
		return
	}
	if accumulate {
		var old [rowColumns]float32
		c.widen(old[:n], c.H[:n])
		add(sums, old[:n], sums)
	}
	c.narrow(c.H[:n], sums)
}
