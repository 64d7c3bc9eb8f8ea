package kernel

// packB copies rows [k0, k0+kb) of columns [j0, j0+n) of b into panels of [kb][nr], the last one
// padded with 0.
func (g *gemm) packB(dst []float32, k0, kb, j0, n int) {
	if n%g.nr != 0 {
		clear(dst[n/g.nr*g.nr*kb:][:g.nr*kb])
	}
	if g.pairs {
		g.packPairsB(dst, k0, kb, j0, n)
		return
	}
	src := g.b.From(k0, j0)
	if g.b.Trans {
		for j := 0; j < n; j += g.nr {
			packTransposed(dst[j*kb:], g.nr, src.From(0, j), min(g.nr, n-j), kb, g.lines)
		}
		return
	}
	// A few rows of all panels at a time, so that the source is read along its rows.
	const some = 32
	for k := 0; k < kb; k += some {
		for j := 0; j < n; j += g.nr {
			packCopy(dst[j*kb+k*g.nr:], g.nr, src.From(k, j), min(some, kb-k), min(g.nr, n-j))
		}
	}
}

// packColumns copies rows of a, kb columns each, into panels of [kb][mr].
func packColumns(dst []float32, a Matrix, mr, rows, kb int, tmp []float32) {
	if !a.Trans {
		a.Trans = true // of the matrix whose columns are the rows of a
		for r := 0; r < rows; r += mr {
			packTransposed(dst[r*kb:], mr, a.From(0, r), min(mr, rows-r), kb, tmp)
		}
		return
	}
	a.Trans = false
	const some = 64
	for k := 0; k < kb; k += some {
		for r := 0; r < rows; r += mr {
			packCopy(dst[r*kb+k*mr:], mr, a.From(k, r), min(some, kb-k), min(mr, rows-r))
		}
	}
}

// copies are the assembly of packCopy for the types of src. Bit c of mask is 1 for each column c.
type copies struct {
	floats    func(dst *float32, ldd int, src *float32, lds, rows int, mask uint64)
	bf16, f16 func(dst *float32, ldd int, src *uint16, lds, rows int, mask uint64)
}

// packCopy sets dst[r*ldd+c] to element (r, c) of src, which must not be transposed. rows is not 0, and cols is no more
// than the width of a tile.
func packCopy(dst []float32, ldd int, src Matrix, rows, cols int) {
	to, ok := copiesFor(cols)
	mask := uint64(1)<<cols - 1
	switch {
	case !ok:
		packCopyGeneric(dst, ldd, src, rows, cols)
	case src.H == nil:
		to.floats(&dst[0], ldd, &src.F[0], src.LD, rows, mask)
	case src.Half:
		to.f16(&dst[0], ldd, &src.H[0], src.LD, rows, mask)
	default:
		to.bf16(&dst[0], ldd, &src.H[0], src.LD, rows, mask)
	}
}

// packCopyGeneric is packCopy.
func packCopyGeneric(dst []float32, ldd int, src Matrix, rows, cols int) {
	if src.H != nil {
		for r := range rows {
			src.widen(dst[r*ldd:][:cols], src.H[r*src.LD:][:cols])
		}
		return
	}
	for r := range rows {
		copy(dst[r*ldd:][:cols], src.F[r*src.LD:])
	}
}

// packRow copies the first elements of the first row of src.
func packRow(dst []float32, src Matrix) {
	if src.H != nil {
		src.widen(dst, src.H[:len(dst)])
		return
	}
	copy(dst, src.F)
}

// transposeRows is the largest number of rows of one transpose.
const transposeRows = 16

// packTransposed sets dst[k*ldd+c] to element (k, c) of src for k in [0, kb) and c in [0, n). src is
// transposed: the elements of one c are contiguous.
func packTransposed(dst []float32, ldd int, src Matrix, n, kb int, tmp []float32) {
	for c := 0; c < n; c += transposeRows {
		rows := min(transposeRows, n-c)
		part := src.From(0, c)
		s, lds := part.F, part.LD
		if part.H != nil {
			for r := range rows {
				part.widen(tmp[r*kb:][:kb], part.H[r*part.LD:][:kb])
			}
			s, lds = tmp, kb
		}
		transpose(dst[c:], ldd, s, lds, rows, kb)
	}
}

// transposeGeneric sets dst[c*ldd+r] = src[r*lds+c] for r in [0, rows) and c in [0, cols).
func transposeGeneric(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	for r := range rows {
		for c, x := range src[r*lds:][:cols] {
			dst[c*ldd+r] = x
		}
	}
}
