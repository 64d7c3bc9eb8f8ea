package cpu

import (
	"math"

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
	p.split(b.pool.threads)
	need := kernel.GemmPartsScratch(p.parts, p.c, p.a, p.b, p.rows, p.cols, p.k, p.accumulate)
	s := b.scratch(b.pool.threads * need * 4)
	defer s.release()
	tmp := elems[float32](s, tensor.F32)
	b.pool.run(p.tiles(), func(tile, thread int) { p.compute(tile, tmp[thread*need:][:need]) })
}

// matrix is t for kernels.
func matrix(op string, t *tensor.Tensor) kernel.Matrix {
	o := floats(op, t)
	return kernel.Matrix{F: o.f, H: o.h, Half: o.dt == tensor.F16, LD: o.ld}
}

// product is a batch of matrix products, split into tiles of rows x cols of c, never along k.
type product struct {
	c, a, b    kernel.Matrix
	parts      kernel.Parts
	batch      int
	m, n, k    int
	accumulate bool
	rows, cols int
}

// Costs of a tile beside its multiply-adds, in multiply-adds, and the part of a tile by which threads end apart, because other
// work runs beside them.
const (
	packCost = 8       // of an element that a tile packs
	tileCost = 1 << 14 // of taking a tile
	spread   = 0.03
)

// tilesEach is the largest number of tiles of a thread. More of them balance load, and pack operands more often. A product by
// matrix tiles takes little more time than packing its operands.
const tilesEach = 3

// split makes one tile for one thread, else tiles of about equal size, for which the threads take the least time. A tile
// packs its columns of b once, and its rows of a for each block of columns.
func (p *product) split(threads int) {
	p.rows, p.cols = p.m, p.n
	if threads == 1 || p.m*p.n*p.k < smallProduct {
		return
	}
	if p.m == 1 && p.b.Trans && p.batch == 1 { // packs nothing, and reads memory as fast in short parts
		p.cols = partSize(p.n, 4*threads, 16, 16)
		return
	}
	each := tilesEach
	if p.parts.ByTiles(p.a, p.b) {
		each = 1
	}
	height, width, block := kernel.GemmUnits(p.parts, p.a, p.b)
	try, least := *p, math.Inf(1)
	for down := 1; down == 1 || (down-1)*height < p.m; down++ {
		if shortest := p.batch * p.n * (p.m + packCost*down) / threads; down > each*threads || float64(shortest) > least {
			break // more rows of tiles only pack b more often
		}
		for per := 1; per <= each; per++ {
			across := max(1, per*threads/(p.batch*down))
			try.rows, try.cols = partSize(p.m, down, height, height), partSize(p.n, across, width, width)
			inTurn := (try.tiles() + threads - 1) / threads
			packed := try.cols + try.rows*((try.cols+block-1)/block)
			tile := float64(try.rows*try.cols+packCost*packed) + tileCost/float64(p.k)
			if t := (float64(inTurn) + spread) * tile; t < least {
				least, p.rows, p.cols = t, try.rows, try.cols
			}
		}
	}
}

// smallProduct is the number of multiply-adds in the time that wakes a thread.
const smallProduct = 1 << 18

// partSize is the size of about count parts of n, a multiple of unit no less than minSize.
func partSize(n, count, minSize, unit int) int {
	size := max(minSize, (n+count-1)/count)
	return min(n, (size+unit-1)/unit*unit)
}

func (p *product) grid() (down, across int) {
	return (p.m + p.rows - 1) / p.rows, (p.n + p.cols - 1) / p.cols
}

func (p *product) tiles() int {
	down, across := p.grid()
	return p.batch * down * across
}

func (p *product) compute(tile int, scratch []float32) {
	down, across := p.grid()
	i, j := tile%down*p.rows, tile/down%across*p.cols
	n := tile / (down * across)
	c, a, b := batchMatrix(p.c, n, p.m, p.n), batchMatrix(p.a, n, p.m, p.k), batchMatrix(p.b, n, p.k, p.n)
	kernel.GemmParts(p.parts, c.From(i, j), a.From(i, 0), b.From(0, j), min(p.rows, p.m-i), min(p.cols, p.n-j), p.k, p.accumulate, scratch)
}

// batchMatrix is matrix n of a batch of matrices of rows x cols.
func batchMatrix(m kernel.Matrix, n, rows, cols int) kernel.Matrix {
	if m.Trans {
		return m.From(0, n*cols)
	}
	return m.From(n*rows, 0)
}
