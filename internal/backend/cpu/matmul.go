package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

func (b *Backend) MatMul(dst, x, y *tensor.Tensor, op tensor.MatMulOp) {
	const name = "matmul"
	p := product{accumulate: op.Accumulate, parts: b.parts, batch: 1}
	if op.Highest {
		p.parts = 0
	}
	rank := len(dst.Shape())
	check((rank == 2 || rank == 3) && len(x.Shape()) == rank && len(y.Shape()) == rank, name, "%v of %v and %v", dst, x, y)
	if rank == 3 {
		p.batch = dst.Dim(0)
		check(x.Dim(0) == p.batch && y.Dim(0) == p.batch, name, "%v of %v and %v", dst, x, y)
	}
	p.m, p.n, p.k = dst.Dim(-2), dst.Dim(-1), x.Dim(-1)
	if op.TransA {
		p.k = x.Dim(-2)
	}
	p.c, p.a, p.b = matrix(name, dst), matrix(name, x), matrix(name, y)
	p.a.Trans, p.b.Trans = op.TransA, op.TransB
	for _, f := range []struct {
		t          *tensor.Tensor
		trans      bool
		rows, cols int
	}{{x, op.TransA, p.m, p.k}, {y, op.TransB, p.k, p.n}} {
		r, c := f.t.Dim(-2), f.t.Dim(-1)
		if f.trans {
			r, c = c, r
		}
		check(r == f.rows && c == f.cols, name, "%v of %v and %v, transposed %t and %t", dst, x, y, op.TransA, op.TransB)
	}
	if p.batch == 0 || p.m == 0 || p.n == 0 {
		return
	}
	switch threads := b.pool.threads; {
	case p.batch >= threads || p.m*p.n*p.k < smallProduct:
		p.each(b, p.n)
	case p.m == 1 && p.b.Trans && p.batch == 1: // packs nothing, and reads memory as fast in short parts
		p.each(b, partSize(p.n, 4*threads, 16, 16))
	case kernel.FewRows(p.parts, p.a, p.b, p.m, threads):
		p.each(b, partSize(p.n, (8*threads+p.batch-1)/p.batch, 64, 32))
	default:
		for i := range p.batch {
			p.together(b, i)
		}
	}
}

// matrix is t for kernels.
func matrix(op string, t *tensor.Tensor) kernel.Matrix {
	o := floats(op, t)
	return kernel.Matrix{F: o.f, H: o.h, Half: o.dt == tensor.F16, LD: o.ld}
}

// product is a batch of matrix products.
type product struct {
	c, a, b    kernel.Matrix
	parts      kernel.Parts
	batch      int
	m, n, k    int
	accumulate bool
}

// smallProduct is the number of multiply-adds in the time that wakes a thread.
const smallProduct = 1 << 18

// partSize is the size of about count parts of n, a multiple of unit no less than minSize.
func partSize(n, count, minSize, unit int) int {
	size := max(minSize, (n+count-1)/count)
	return min(n, (size+unit-1)/unit*unit)
}

// matrices are the operands of product i.
func (p *product) matrices(i int) (c, a, b kernel.Matrix) {
	return batchMatrix(p.c, i, p.m, p.n), batchMatrix(p.a, i, p.m, p.k), batchMatrix(p.b, i, p.k, p.n)
}

// each computes products in parts of cols columns, each on one thread.
func (p *product) each(b *Backend, cols int) {
	c, x, y := p.matrices(0)
	need := kernel.GemmPartsScratch(p.parts, c, x, y, p.m, cols, p.k, p.accumulate)
	s := b.scratch(b.pool.threads * need * 4)
	defer s.release()
	tmp, across := elems[float32](s, tensor.F32), (p.n+cols-1)/cols
	b.pool.run(p.batch*across, func(tile, thread int) {
		c, x, y := p.matrices(tile / across)
		j := tile % across * cols
		kernel.GemmParts(p.parts, c.From(0, j), x, y.From(0, j), p.m, min(cols, p.n-j), p.k, p.accumulate, tmp[thread*need:][:need])
	})
}

// together computes product i on all threads.
func (p *product) together(b *Backend, i int) {
	c, x, y := p.matrices(i)
	one := kernel.NewProduct(p.parts, c, x, y, p.m, p.n, p.k, p.accumulate, b.pool.threads)
	defer one.Free()
	s := b.scratch(one.Scratch() * 4)
	defer s.release()
	tmp := elems[float32](s, tensor.F32)
	b.pool.run(b.pool.threads, func(thread, _ int) { one.Run(thread, tmp) })
}

// batchMatrix is matrix n of a batch of matrices of rows x cols.
func batchMatrix(m kernel.Matrix, n, rows, cols int) kernel.Matrix {
	if m.Trans {
		return m.From(0, n*cols)
	}
	return m.From(n*rows, 0)
}
