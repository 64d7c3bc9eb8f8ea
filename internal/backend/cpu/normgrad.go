package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

// gradBlock is the number of rows per partial sum of a gain's gradient. Partial sums are added in
// order, so bits do not depend on threads.
const gradBlock = 64

func (b *Backend) RMSNormBackward(dx, dw, dy, dres, x, rstd, w *tensor.Tensor, accumulate bool) {
	g := b.newNormGrad("rms norm backward", x.Width(), dx, dy, dres, x, w)
	defer g.release()
	s := g.n.column(rstd)
	g.run(1, func(r int, dx, dy, dres, x, dw, db []float32) {
		k := float32(kernel.Dot3(dy, g.n.w, x) / float64(g.n.width) * cube(s[r]))
		kernel.RMSGradient(dx, dw, dy, dres, x, g.n.w, s[r], k)
	})
	g.finish(0, dw, accumulate)
}

func (b *Backend) LayerNormBackward(dx, dw, db, dy, dres, x, mean, rstd, w *tensor.Tensor, accumulate bool) {
	g := b.newNormGrad("layer norm backward", x.Width(), dx, dy, dres, x, w)
	defer g.release()
	m, s := g.n.column(mean), g.n.column(rstd)
	g.run(2, func(r int, dx, dy, dres, x, dw, db []float32) {
		sum, dot := kernel.LayerDots(dy, g.n.w, x, m[r])
		width := float64(g.n.width)
		k, c := float32(dot/width*cube(s[r])), float32(sum/width*float64(s[r]))
		kernel.LayerGradient(dx, dw, db, dy, dres, x, g.n.w, m[r], s[r], k, c)
	})
	g.finish(0, dw, accumulate)
	g.finish(1, db, accumulate)
}

func cube(x float32) float64 { return float64(x) * float64(x) * float64(x) }

// normGrad is one backward normalization.
type normGrad struct {
	n              *norm
	dx, dy, dres   operand
	blocks, stride int
	tmp            rowScratch
	mem            scratch
	sums           []float32 // [gains][blocks][stride]
}

func (b *Backend) newNormGrad(op string, unit int, dx, dy, dres, x, w *tensor.Tensor) *normGrad {
	sameShape(op, x, dx, dy, dres)
	g := &normGrad{
		n:  b.newUnitNorm(op, unit, dx, x, w, nil),
		dx: floats(op, dx), dy: floats(op, dy), dres: floats(op, dres),
	}
	g.blocks = (g.n.rows + gradBlock - 1) / gradBlock
	g.stride = (unit + 15) &^ 15 // a cache line: blocks share none
	g.tmp = b.rowScratch(g.n.width, &g.dx, &g.dy, &g.dres, &g.n.x)
	return g
}

func (g *normGrad) release() {
	g.tmp.release()
	g.mem.release()
	g.n.release()
}

// part is block k's partial sum for gain i.
func (g *normGrad) part(i, k int) []float32 {
	return g.sums[(i*g.blocks+k)*g.stride:][:g.n.unit]
}

// run calls f for every row, with the partial sums of its block.
func (g *normGrad) run(gains int, f func(r int, dx, dy, dres, x, dw, db []float32)) {
	n := g.n
	g.mem = n.b.scratch(gains * g.blocks * g.stride * 4)
	g.sums = elems[float32](g.mem, tensor.F32)
	block := func(tile, thread int) {
		dw := g.part(0, tile)
		db := dw // for LayerNorm only
		clear(dw)
		if gains > 1 {
			db = g.part(1, tile)
			clear(db)
		}
		for r := tile * gradBlock; r < min(n.rows, (tile+1)*gradBlock); r++ {
			dx := g.dx.dest(r*g.dx.ld, n.width, g.tmp.row(thread, 0))
			f(r, dx,
				g.dy.load(r*g.dy.ld, n.width, g.tmp.row(thread, 1)),
				g.dres.load(r*g.dres.ld, n.width, g.tmp.row(thread, 2)),
				n.x.load(r*n.x.ld, n.width, g.tmp.row(thread, 3)), dw, db)
			g.dx.store(r*g.dx.ld, dx)
		}
	}
	if n.rows*n.width <= inlineElems {
		for t := range g.blocks {
			block(t, 0)
		}
		return
	}
	n.b.pool.run(g.blocks, block)
}

// finish adds up the blocks of gain i into d, if not nil.
func (g *normGrad) finish(i int, d *tensor.Tensor, accumulate bool) {
	if d == nil {
		return
	}
	n := g.n
	check(d.Elems() == n.unit && d.Contiguous(), n.op, "the gradient %v of a gain for %v", d, n.first)
	spare := elems[float32](n.gains, tensor.F32) // two units long; the gain is no longer needed
	total := spare[n.unit:][:n.unit]
	clear(total)
	for k := 0; k < g.blocks; k++ {
		kernel.Add(total, total, g.part(i, k))
	}
	o := floats(n.op, d)
	if accumulate {
		kernel.Add(total, o.load(0, n.unit, spare), total)
	}
	if o.narrow() {
		o.store(0, total)
	} else {
		copy(o.f, total)
	}
}
