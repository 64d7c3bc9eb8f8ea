package kernel

import "trireme/internal/impl"

var gemmShapes = [...]gemmShape{
	impl.Generic: genericShape,
	impl.NEON:    {mr: 8, nr: 12, kc: 256, nc: 768, packA: true},
}

// run computes the largest number of rows that one kernel handles, and returns it.
func (g *gemm) run(t *gemmTile, rows int) int {
	switch {
	case g.nr != 12:
		return tileGeneric(t, rows)
	case t.cols == 12:
		return tileNEON(t, rows)
	}
	rows = tileRowsNEON(rows)
	u := g.buffered(t, rows)
	tileNEON(&u, rows)
	g.unbuffer(t, rows)
	return rows
}

// tileRowsNEON returns the number of rows that tileNEON computes at once.
func tileRowsNEON(rows int) int {
	switch {
	case rows >= 8:
		return 8
	case rows >= 4:
		return 4
	}
	return 1
}

func tileNEON(t *gemmTile, rows int) int {
	var in *float32
	if t.in != nil {
		in = &t.in[0]
	}
	add := 0
	if t.add {
		add = 1
	}
	rows = tileRowsNEON(rows)
	switch rows {
	case 8:
		tileNEONx8(t.k, &t.a[0], t.sk, &t.b[0], in, t.ldin, &t.out[0], t.ldout, add)
	case 4:
		tileNEONx4(t.k, &t.a[0], t.sk, &t.b[0], in, t.ldin, &t.out[0], t.ldout, add)
	default:
		tileNEONx1(t.k, &t.a[0], t.sk, &t.b[0], in, t.ldin, &t.out[0], t.ldout, add)
	}
	return rows
}

func transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	body, r := 0, 0
	if impl.Current() == impl.NEON {
		body = cols &^ 3
	}
	for ; rows-r >= 8 && body > 0; r += 8 {
		transposeNEON(&dst[r], ldd, &src[r*lds], lds, body)
	}
	if r < rows && body > 0 {
		transposeGeneric(dst[r:], ldd, src[r*lds:], lds, rows-r, body)
	}
	if body < cols {
		transposeGeneric(dst[body*ldd:], ldd, src[body:], lds, rows, cols-body)
	}
}

// copiesFor returns the copies of full tiles.
func copiesFor(cols int) (copies, bool) {
	switch {
	case impl.Current() != impl.NEON:
	case cols == 8:
		return copies{copyNEONx8, copyNEONx8BF16, copyNEONx8F16}, true
	case cols == 12:
		return copies{copyNEONx12, copyNEONx12BF16, copyNEONx12F16}, true
	}
	return copies{}, false
}

func fmaPeak(n int) float64 {
	if impl.Current() != impl.NEON {
		return 0
	}
	peakNEON(n/24 + 1)
	return float64(n/24+1) * 24 * 4 * 2
}

// rowKernelFor returns the kernel of a product of one row; none has no run.
func rowKernelFor(a, b Matrix) rowKernel {
	switch {
	case impl.Current() != impl.NEON:
		return rowKernel{}
	case b.H == nil:
		return rowKernel{columns: 16, stream: 1, run: rowFloatsNEON}
	}
	return rowKernel{columns: 16, stream: 1, run: rowWideNEON}
}
