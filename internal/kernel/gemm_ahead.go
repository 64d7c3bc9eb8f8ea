package kernel

import "unsafe"

// nearBlock is the number of floats of the next block of b that fit into cache beside the current one.
const nearBlock = 128 << 10

// look prepares the prefetch that follows the rows of a before row i: more rows or, after the last,
// the next columns of a and rows of b.
func (g *gemm) look(i, i0, i1, step, j0, n, k0, kb int) {
	g.soon = [2]ahead{}
	k := k0 + kb
	switch {
	case i < i1:
		g.soon[0] = newAhead(g.a, i, k0, min(step, i1-i))
	case k < g.k:
		g.soon[0] = newAhead(g.a, i0, k, step)
		if kb*n <= nearBlock {
			b := g.b
			b.Trans = !b.Trans // b is split along its columns as a is along its rows
			g.soon[1] = newAhead(b, j0, k, n)
		}
	}
}

// ahead is a part of an operand to prefetch. Each tile prefetches k/4 elements, step apart.
type ahead struct {
	src                []float32
	lines, ld, perLine int // perLine tiles prefetch along each line; lines are ld apart
	step               int
	tiles              int // tiles that have prefetched
}

// newAhead prefetches rows of a from (i, k) on: along the rows if those are contiguous, otherwise
// along columns as wide as a cache line.
func newAhead(a Matrix, i, k, rows int) ahead {
	a, per := a.From(i, k), 16 // elements of a cache line
	if a.H != nil {
		a.F, a.LD, per = floats(a.H), a.LD/2, 32
	}
	if a.Trans {
		return ahead{src: a.F, lines: rows/per + 1, ld: 16, perLine: 4, step: a.LD}
	}
	return ahead{src: a.F, lines: rows, ld: a.LD, perLine: 1, step: 64 / per}
}

// floats views pairs of 16-bit elements as floats, for prefetching.
func floats(h []uint16) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(h))), len(h)/2)
}

// next returns the first element that a tile of depth k prefetches, or nil.
func (h *ahead) next(k int) []float32 {
	if h.src == nil {
		return nil
	}
	off := h.tiles/h.perLine*h.ld + h.tiles%h.perLine*(k/4)*h.step
	if h.tiles >= h.lines*h.perLine || off >= len(h.src) {
		return nil
	}
	h.tiles++
	return h.src[off:]
}
