package kernel

import "trireme/internal/impl"

var gemmShapes = [...]gemmShape{
	impl.Generic: genericShape,
	impl.AVX2:    {mr: 6, nr: 16, kc: 768, nc: 768, plainRows: 72},
	impl.AVX512:  {mr: 14, nr: 32, kc: 512, nc: 768, plainRows: 768},
}

// run computes the largest number of rows that one kernel handles, and returns it.
func (g *gemm) run(t *gemmTile, rows int) int {
	switch g.nr {
	case 32:
		return tileAVX512(t, rows)
	case 16:
		if t.cols == 16 {
			return tileAVX2(t, rows)
		}
		rows = tileRowsAVX2(rows)
		u := g.buffered(t, rows)
		tileAVX2(&u, rows)
		g.unbuffer(t, rows)
		return rows
	}
	return tileGeneric(t, rows)
}

// tilesAVX512 and tilesBF16 have 14, 8, 4, 2 and 1 rows.
var (
	tilesAVX512 = [...]tileFunc{tileAVX512x14, tileAVX512x8, tileAVX512x4, tileAVX512x2, tileAVX512x1}
	tilesBF16   = [...]pairTileFunc{tileBF16x14, tileBF16x8, tileBF16x4, tileBF16x2, tileBF16x1}
)

type tileFunc func(k int, a *float32, si, sk int, b *float32, sb int, in *float32, ldin int, out *float32, ldout int, mask uint64, add int, pf *float32, pfstep int)

type pairTileFunc func(k int, a *float32, si, sk int, b *float32, sb int, in *float32, ldin int, out *float32, ldout int, mask uint64, add int, pf *float32, pfstep int, half *uint16, ldhalf int)

func tileAVX512(t *gemmTile, rows int) int {
	var in *float32
	if t.in != nil {
		in = &t.in[0]
	}
	add := 0
	if t.add {
		add = 1
	}
	which := 4
	switch {
	case rows >= 14:
		which, rows = 0, 14
	case rows >= 8:
		which, rows = 1, 8
	case rows >= 4:
		which, rows = 2, 4
	case rows >= 2:
		which, rows = 3, 2
	}
	mask := uint64(1)<<t.cols - 1
	if t.pairs {
		var half *uint16
		if t.half != nil {
			half = &t.half[0]
		}
		tilesBF16[which](t.k, &t.a[0], t.si, t.sk, &t.b[0], t.sb, in, t.ldin, &t.out[0], t.ldout, mask, add, &t.pf[0], t.pfstep, half, t.ldhalf)
		return rows
	}
	tilesAVX512[which](t.k, &t.a[0], t.si, t.sk, &t.b[0], t.sb, in, t.ldin, &t.out[0], t.ldout, mask, add, &t.pf[0], t.pfstep)
	return rows
}

// tileRowsAVX2 returns the number of rows that tileAVX2 computes at once.
func tileRowsAVX2(rows int) int {
	switch {
	case rows >= 6:
		return 6
	case rows >= 4:
		return 4
	}
	return min(rows, 2)
}

func tileAVX2(t *gemmTile, rows int) int {
	var in *float32
	if t.in != nil {
		in = &t.in[0]
	}
	add := 0
	if t.add {
		add = 1
	}
	a, b, out := &t.a[0], &t.b[0], &t.out[0]
	rows = tileRowsAVX2(rows)
	switch rows {
	case 6:
		tileAVX2x6(t.k, a, t.si, t.sk, b, t.sb, in, t.ldin, out, t.ldout, 0, add, &t.pf[0], t.pfstep)
	case 4:
		tileAVX2x4(t.k, a, t.si, t.sk, b, t.sb, in, t.ldin, out, t.ldout, 0, add, &t.pf[0], t.pfstep)
	case 2:
		tileAVX2x2(t.k, a, t.si, t.sk, b, t.sb, in, t.ldin, out, t.ldout, 0, add, &t.pf[0], t.pfstep)
	default:
		tileAVX2x1(t.k, a, t.si, t.sk, b, t.sb, in, t.ldin, out, t.ldout, 0, add, &t.pf[0], t.pfstep)
	}
	return rows
}

// transpose sets dst[c*ldd+r] = src[r*lds+c] for r in [0, rows) and c in [0, cols).
func transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	body, l := cols&^3, impl.Current()
	for r := 0; r < rows && body > 0; {
		switch left := rows - r; {
		case l == impl.AVX512 && left >= 16:
			transposeAVX512(&dst[r], ldd, &src[r*lds], lds, body)
			r += 16
		case l >= impl.AVX2 && left >= 8:
			transposeAVX2(&dst[r], ldd, &src[r*lds], lds, body)
			r += 8
		default:
			transposeGeneric(dst[r:], ldd, src[r*lds:], lds, left, body)
			r = rows
		}
	}
	if body < cols {
		transposeGeneric(dst[body*ldd:], ldd, src[body:], lds, rows, cols-body)
	}
}

// copiesFor returns the copies of panels of cols columns. AVX2 has those of full tiles.
func copiesFor(cols int) (copies, bool) {
	switch l := impl.Current(); {
	case l == impl.AVX512 && cols <= 16:
		return copies{copyAVX512x16, copyAVX512x16BF16, copyAVX512x16F16}, true
	case l == impl.AVX512:
		return copies{copyAVX512x32, copyAVX512x32BF16, copyAVX512x32F16}, true
	case l == impl.AVX2 && cols == 6:
		return copies{copyAVX2x6, copyAVX2x6BF16, copyAVX2x6F16}, true
	case l == impl.AVX2 && cols == 16:
		return copies{copyAVX2x16, copyAVX2x16BF16, copyAVX2x16F16}, true
	}
	return copies{}, false
}

// pairRows packs pairs of rows of src, not transposed, of up to 32 columns.
func pairRows(dst []float32, ldd int, src Matrix, pairs, cols int) {
	if pairs == 0 {
		return
	}
	_, _ = dst[(pairs-1)*ldd+cols-1], src.H[(2*pairs-1)*src.LD+cols-1]
	f := pairRowsAVX512x32
	if cols <= 16 {
		f = pairRowsAVX512x16
	}
	f(&dst[0], ldd, &src.H[0], src.LD, pairs, uint64(1)<<cols-1)
}

// transposePairs packs the first pairs of 16 columns of src, transposed, and returns how many.
func transposePairs(dst []float32, ldd int, src Matrix, pairs int) int {
	if pairs &^= 3; pairs > 0 {
		_, _ = dst[(pairs-1)*ldd+15], src.H[15*src.LD+2*pairs-1]
		transposePairsAVX512(&dst[0], ldd, &src.H[0], src.LD, pairs)
	}
	return pairs
}

// swapPairs packs a row of pairs.
func swapPairs(dst []float32, src []uint16) {
	if n := len(src) / 2; n > 0 {
		swapPairsAVX512(&dst[:n][0], &src[0], n)
	}
}

func fmaPeak(n int) float64 {
	switch impl.Current() {
	case impl.AVX512:
		peakAVX512(n/24 + 1)
		return float64(n/24+1) * 24 * 16 * 2
	case impl.AVX2:
		peakAVX2(n/12 + 1)
		return float64(n/12+1) * 12 * 8 * 2
	}
	return 0
}

func pairPeak(n int) float64 {
	peakBF16(n/24 + 1)
	return float64(n/24+1) * 24 * 16 * 4
}

// rowKernelFor returns the kernel of a product of one row; none has no run.
func rowKernelFor(a, b Matrix) rowKernel {
	both := a.bfloat16() && b.bfloat16()
	switch l := impl.Current(); {
	case l == impl.AVX512 && b.H == nil:
		return rowKernel{columns: 16, stream: rowStream, run: rowFloatsAVX512}
	case l == impl.AVX512 && both && impl.Tiles():
		return rowKernel{columns: 16, stream: rowStream, run: rowTilesAVX512}
	case l == impl.AVX512 && both && impl.Pairs():
		return rowKernel{columns: 16, stream: rowStream, pairs: true, run: rowPairsAVX512}
	case l == impl.AVX512:
		return rowKernel{columns: 16, stream: rowStream, run: rowWideAVX512}
	case l == impl.AVX2 && b.H == nil:
		return rowKernel{columns: 8, stream: rowStream, run: rowFloatsAVX2}
	case l == impl.AVX2:
		return rowKernel{columns: 8, stream: rowStream, run: rowWideAVX2}
	}
	return rowKernel{}
}
