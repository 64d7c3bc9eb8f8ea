package kernel

// gemmTile is the work of one tile; strides are in elements. Element (r, kk) of a is at r*si+kk*sk.
// b has k rows of nr with stride sb; in and out have row strides ldin and ldout. Sums start from in, or
// at 0 if in is nil; with add, the old out is added at the end. With half, which only tiles of pairs have, sums are rounded to it
// instead.
type gemmTile struct {
	k, cols int
	pairs   bool // elements of a and b are pairs
	a       []float32
	si, sk  int
	b       []float32
	sb      int
	in      []float32
	ldin    int
	out     []float32
	ldout   int
	add     bool
	half    []uint16
	ldhalf  int

	// Prefetch: one element of pf for every four of k, pfstep apart.
	pf     []float32
	pfstep int
}

// compute runs a tile of the given number of rows, in pieces that the version has kernels for.
func (g *gemm) compute(t *gemmTile, rows int) {
	for r := 0; r < rows; {
		n := g.run(t, rows-r)
		if r += n; r < rows {
			t.a = t.a[n*t.si:]
			t.out = t.out[n*t.ldout:]
			if t.half != nil {
				t.half = t.half[n*t.ldhalf:]
			}
			if t.in != nil {
				t.in = t.in[n*t.ldin:]
			}
		}
	}
}

// buffered returns a tile of full rows of nr columns in a buffer, in place of the narrower t, for kernels that read and
// write full rows. unbuffer copies its result to t.
func (g *gemm) buffered(t *gemmTile, rows int) gemmTile {
	u := *t
	u.out, u.ldout, u.add = g.tile, g.nr, false
	if t.in != nil {
		for r := range rows {
			copy(g.tile[r*g.nr:], t.in[r*t.ldin:][:t.cols])
		}
		u.in, u.ldin = g.tile, g.nr
	}
	return u
}

func (g *gemm) unbuffer(t *gemmTile, rows int) {
	for r := range rows {
		dst, src := t.out[r*t.ldout:][:t.cols], g.tile[r*g.nr:][:t.cols]
		if t.add {
			for j, x := range src {
				src[j] = dst[j] + x
			}
		}
		copy(dst, src)
	}
}
