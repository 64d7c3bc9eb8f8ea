package kernel

import "unsafe"

// rowDepth is the multiple of k that kernels of one row need.
const rowDepth = 32

// rowKernel computes columns of a product of one row x, floats or pairs, with a transposed matrix w. Words of w are floats or
// pairs of bfloat16. out has a sum for each column; there are no more than rowColumns.
//
// It reads its columns side by side, so each is a stream of memory. A column of a few KiB ends before the processor's
// prefetch is at full speed; a stream of stream columns, one after the other, hides all its beginnings but the first.
type rowKernel struct {
	columns int
	stream  int  // columns of each stream; odd, because rows of w in the same set of the L1 cache are often even multiples apart
	pairs   bool // x is pairs
	run     func(steps int, x, w *float32, ldw int, out *float32)
}

const (
	rowColumns = 16
	rowStream  = 63 // of kernels that read streams
)

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
	x, sums, ordered := scratch[:k], scratch[k:][:f.columns*f.stream], scratch[k+f.columns*f.stream:][:f.columns*f.stream]
	switch {
	case f.pairs:
		swapPairs(x, a.H[:k])
	case a.H != nil:
		a.widen(x, a.H[:k])
	default:
		x = a.F[:k]
	}
	for n-done >= f.columns {
		length := min(f.stream, (n-done)/f.columns-1|1) // odd, and no more than there are
		for i := range length {
			w, ldw := b.From(0, done+i), b.LD*length
			first := unsafe.Pointer(unsafe.SliceData(w.F))
			if w.H != nil {
				first, ldw = unsafe.Pointer(unsafe.SliceData(w.H)), ldw/2
			}
			f.run(k/rowDepth, &x[0], (*float32)(first), ldw, &sums[i*f.columns])
		}
		count := length * f.columns
		transpose(ordered, length, sums, f.columns, length, f.columns)
		storeRow(c.From(0, done), ordered[:count], accumulate)
		done += count
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
	for at := 0; accumulate && at < n; at += rowColumns {
		var old [rowColumns]float32
		part := sums[at:min(n, at+rowColumns)]
		c.widen(old[:len(part)], c.H[at:][:len(part)])
		add(part, old[:len(part)], part)
	}
	c.narrow(c.H[:n], sums)
}
