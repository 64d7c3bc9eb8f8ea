package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

// quantizedMatrix is 8-bit weights [n k] with their scales.
type quantizedMatrix struct {
	w      []uint8
	scales []float32
	n, k   int
}

func quantizedWeights(op string, w, scales *tensor.Tensor) quantizedMatrix {
	check(len(w.Shape()) == 2 && w.DType() == tensor.U8 && w.Contiguous() && scales.DType() == tensor.F32 && scales.Contiguous() &&
		scales.Rows() == w.Rows() && scales.Width() == tensor.QuantBlocks(w.Width()), op, "weights %v with scales %v", w, scales)
	return quantizedMatrix{tensor.Host[uint8](w), tensor.Host[float32](scales), w.Rows(), w.Width()}
}

// rows is rows [lo, hi).
func (q quantizedMatrix) rows(lo, hi int) (w []uint8, scales []float32) {
	blocks := tensor.QuantBlocks(q.k)
	return q.w[lo*q.k : hi*q.k], q.scales[lo*blocks : hi*blocks]
}

// MatMulQuantized reads the weights of one row once, as they are. More rows multiply weights that are dequantized to x's
// type, some columns of dst at a time.
func (b *Backend) MatMulQuantized(dst, x, w, scales *tensor.Tensor) {
	const op = "matmul by quantized weights"
	q := quantizedWeights(op, w, scales)
	check(len(dst.Shape()) == 2 && len(x.Shape()) == 2 && dst.Rows() == x.Rows() && dst.Width() == q.n && x.Width() == q.k, op, "%v of %v and %v", dst, x, w)
	switch {
	case dst.Elems() == 0:
	case x.Rows() == 1:
		b.matVecQuantized(floats(op, dst), floats(op, x), q)
	default:
		b.matMulQuantized(matrix(op, dst), floats(op, x), q, x.Rows())
	}
}

func (b *Backend) matVecQuantized(y, x operand, q quantizedMatrix) {
	s := b.scratch((q.k + q.n) * 4)
	defer s.release()
	tmp := elems[float32](s, tensor.F32)
	in, out := x.load(0, q.k, tmp[:q.k]), y.dest(0, q.n, tmp[q.k:])
	parts := 1
	if q.n*q.k >= smallProduct {
		parts = min(q.n, 4*b.pool.threads)
	}
	b.pool.run(parts, func(i, _ int) {
		lo, hi := i*q.n/parts, (i+1)*q.n/parts
		w, scales := q.rows(lo, hi)
		kernel.MatVecQuantized(out[lo:hi], in, w, scales)
	})
	y.store(0, out)
}

// The largest numbers of weights and of columns that a thread dequantizes before it multiplies by them.
const (
	dequantizedElems = 1 << 18
	dequantizedCols  = 384
)

func (b *Backend) matMulQuantized(c kernel.Matrix, x operand, q quantizedMatrix, m int) {
	cols := min(q.n, max(64, min(dequantizedCols, dequantizedElems/max(1, q.k))/64*64))
	a := kernel.Matrix{F: x.f, H: x.h, Half: x.dt == tensor.F16, LD: x.ld}
	size, gemm, threads := cols*q.k, kernel.GemmScratch(c, a, a, m, cols, q.k, false), b.pool.threads
	weights, other := b.scratch(threads*size*x.dt.Size()), b.scratch(threads*(gemm+q.k)*4)
	defer weights.release()
	defer other.release()
	tmp := elems[float32](other, tensor.F32)
	b.pool.run((q.n+cols-1)/cols, func(tile, thread int) {
		j, mem := tile*cols, tmp[thread*(gemm+q.k):][:gemm+q.k]
		n := min(cols, q.n-j)
		to := operand{dt: x.dt, ld: q.k}
		if x.narrow() {
			to.h = elems[uint16](weights, x.dt)[thread*size:]
		} else {
			to.f = elems[float32](weights, x.dt)[thread*size:]
		}
		for r := range n {
			row := to.dest(r*q.k, q.k, mem[gemm:])
			w, scales := q.rows(j+r, j+r+1)
			kernel.Dequantize(row, w, scales)
			to.store(r*q.k, row)
		}
		right := kernel.Matrix{F: to.f, H: to.h, Half: a.Half, LD: q.k, Trans: true}
		kernel.Gemm(c.From(0, j), a, right, m, n, q.k, false, mem[:gemm])
	})
}

// GatherQuantized dequantizes rows.
func (b *Backend) GatherQuantized(dst, w, scales, ids *tensor.Tensor) {
	const op = "gather quantized rows"
	q, rows := quantizedWeights(op, w, scales), dst.Rows()
	at := indices(op, ids, rows)
	check(dst.Width() == q.k, op, "rows of %v to %v", w, dst)
	for n, id := range at {
		if id < 0 || int(id) >= q.n {
			check(false, op, "id %d of row %d is outside %v", id, n, w)
		}
	}
	o := floats(op, dst)
	tmp := b.rowScratch(q.k, &o)
	defer tmp.release()
	b.rows(rows, q.k, func(lo, hi, thread int) {
		for n := lo; n < hi; n++ {
			row := o.dest(n*o.ld, q.k, tmp.row(thread, 0))
			w, scales := q.rows(int(at[n]), int(at[n])+1)
			kernel.Dequantize(row, w, scales)
			o.store(n*o.ld, row)
		}
	})
}
