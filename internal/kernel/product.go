package kernel

import (
	"slices"
	"sync"
)

// Product is a product that several threads compute together: each block of b is packed once for all of them.
type Product struct {
	c, a, b    Matrix
	parts      Parts
	m, n, k    int
	accumulate bool
	threads    int
	byTiles    bool
	floats     int // of scratch
	tasks      tasks
}

// NewProduct prepares c [m n] = a [m k] * b [k n], plus c if accumulate, for a number of threads. It has the bits of Gemm, whatever
// their number. With parts, float32 operands are sums of bfloat16 numbers where the processor has tiles: each 32 of k add every
// product of partProducts, one after the other, each as tiles add it (gemm_tiles.go), with elements k and k+16 as a pair, which
// packing has beside each other. Henry, Tang and Heinecke (2019) give the errors; those of 3 parts are of the size of float32's own
// rounding. A number that rounds to an infinite bfloat16, above 3.39e38, is infinite.
func NewProduct(parts Parts, c, a, b Matrix, m, n, k int, accumulate bool, threads int) *Product {
	c.check("c", m, n)
	a.check("a", m, k)
	b.check("b", k, n)
	p := products.Get().(*Product)
	p.c, p.a, p.b, p.m, p.n, p.k, p.accumulate, p.threads, p.byTiles = c, a, b, m, n, k, accumulate, threads, parts.ByTiles(a, b)
	if a.H == nil && b.H == nil {
		p.parts = parts
	}
	if m > 0 && n > 0 && k > 0 {
		p.plan()
	}
	return p
}

// products are those that Free frees.
var products = sync.Pool{New: func() any { return new(Product) }}

// Free ends the use of a product whose calls of Run have returned.
func (p *Product) Free() {
	*p = Product{tasks: tasks{taken: p.tasks.taken, reached: p.tasks.reached}}
	products.Put(p)
}

// plan splits the product into tasks.
func (p *Product) plan() {
	if p.byTiles {
		w := p.tiled()
		p.split(&w.grid, tileRows)
		p.floats = w.scratch(p.tasks.buffers)
		return
	}
	g := p.gemm()
	p.split(&g.grid, g.nr)
	p.floats = g.scratch(p.tasks.buffers)
}

// split makes the tasks of a grid, with panels of b of some columns.
func (p *Product) split(g *grid, panel int) {
	t := &p.tasks
	t.threads, t.parts, t.stages, t.chunks, t.continued = p.threads, g.packParts(panel), g.stages(), count(g.rows, g.chunk), g.continued()
	t.buffers = 1
	if p.threads > 1 {
		t.buffers = min(t.stages, max(2, min(maxBuffers, count(2*p.threads, t.chunks))))
	}
	shares := t.slots() * shareCount(p.threads)
	t.taken = slices.Grow(t.taken[:0], shares)[:shares]
	clear(t.taken)
	if t.continued {
		t.reached = slices.Grow(t.reached[:0], t.chunks)[:t.chunks]
		clear(t.reached)
	}
}

func (p *Product) tiled() tiled {
	return newTiled(p.parts, p.c, p.a, p.b, p.m, p.n, p.k, p.accumulate, p.threads)
}

func (p *Product) gemm() gemm {
	g := newGemm(p.c, p.a, p.b, p.m, p.n, p.k, p.accumulate, p.threads)
	g.arrange()
	return g
}

// Scratch returns the number of scratch floats for Run.
func (p *Product) Scratch() int { return p.floats }

// Run does a thread's part of the product, in [0, threads). All threads pass the same scratch, of any content. The product is done
// when a call for each thread has returned. The calls may run at once or one after the other.
func (p *Product) Run(thread int, scratch []float32) {
	if len(scratch) < p.Scratch() {
		panic("kernel: product: scratch is smaller than Scratch says")
	}
	if p.tasks.stages == 0 {
		if thread == 0 {
			zero(p.c, p.m, p.n, p.accumulate)
		}
		return
	}
	t, ended := &p.tasks, false
	defer t.leave(&ended)
	var g gemm
	var w tiled
	if p.byTiles {
		w = p.tiled()
		w.take(thread, t.buffers, scratch)
	} else {
		g = p.gemm()
		g.take(thread, t.buffers, scratch)
	}
	for x, ok := t.take(thread); ok; x, ok = t.take(thread) {
		switch {
		case p.byTiles && x.packs:
			w.pack(x.stage, x.i)
		case p.byTiles:
			w.multiply(x.stage, x.i)
		case x.packs:
			g.pack(x.stage, x.i)
		default:
			g.multiply(x.stage, x.i)
		}
		t.end(x)
	}
	ended = true
}
