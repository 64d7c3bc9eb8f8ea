package kernel

import "unsafe"

// prefetchBlock is the number of floats of the next block of b that fit into cache beside the current one.
const prefetchBlock = 128 << 10

// planPrefetch prepares the prefetch that follows the rows of a before row i: more rows or, after the last,
// the next columns of a and rows of b.
func (g *gemm) planPrefetch(i, i0, i1, step, j0, n, k0, kb int) {
	g.prefetch = [2]prefetch{}
	k := k0 + kb
	switch {
	case i < i1:
		g.prefetch[0] = g.newPrefetch(g.a, i, k0, min(step, i1-i))
	case k < g.k:
		g.prefetch[0] = g.newPrefetch(g.a, i0, k, step)
		if kb*n <= prefetchBlock {
			b := g.b
			b.Trans = !b.Trans // b is split along its columns as a is along its rows
			g.prefetch[1] = g.newPrefetch(b, j0, k, n)
		}
	}
}

// prefetch is a part of an operand to prefetch: lines that are ld apart, each by perLine tiles. A tile prefetches k/4 elements, step
// apart.
type prefetch struct {
	src                []float32
	lines, ld, perLine int
	step               int
	line, off, done    int // of the next tile: the line's first element, its own, and the tiles of this line before it
}

// newPrefetch returns the prefetch of rows of a from (i, k) on: along the rows if those are contiguous,
// otherwise along columns as wide as a cache line.
func (g *gemm) newPrefetch(a Matrix, i, k, rows int) prefetch {
	per, deep := 16, 1 // elements of a cache line, and of each k
	if g.pairs {
		deep = 2
	}
	a = a.From(i, k*deep)
	if a.H != nil {
		a.F, a.LD, per = floats(a.H), a.LD/2, 32
	}
	if a.Trans {
		return prefetch{src: a.F, lines: rows/per + 1, ld: 16, perLine: 4 * deep, step: a.LD}
	}
	return prefetch{src: a.F, lines: rows, ld: a.LD, perLine: 1, step: 64 * deep / per}
}

// floats views pairs of 16-bit elements as floats, for prefetching.
func floats(h []uint16) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(h))), len(h)/2)
}

// next returns the first element that a tile of depth k prefetches, or nil.
func (p *prefetch) next(k int) []float32 {
	if p.lines == 0 || p.off >= len(p.src) {
		return nil
	}
	from := p.src[p.off:]
	p.off += k / 4 * p.step
	if p.done++; p.done == p.perLine {
		p.lines--
		p.line += p.ld
		p.off, p.done = p.line, 0
	}
	return from
}
