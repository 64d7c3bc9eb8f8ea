package kernel

import "trireme/internal/impl"

// tiles is tilesGeneric by tiles or pairs.
func tiles(t tilesOf, a, b []uint16, out []float32, ldout int, first bool) {
	if t.panels == 0 || t.strips == 0 {
		return
	}
	if !impl.Tiles() && !impl.Pairs() {
		tilesGeneric(t, a, b, out, ldout, first, false)
		return
	}
	begin := 0
	if first {
		begin = 1
	}
	_ = out[(t.strips*tileRows-1)*ldout+t.panels*tileRows-1]
	for _, run := range t.runs {
		_, _ = a[run[0]+(t.strips-1)*t.sa+t.steps*tileElems-1], b[run[1]+(t.panels-1)*t.sb+t.steps*tileElems-1]
	}
	if impl.Pairs() {
		for q := range t.strips {
			for p := range t.panels {
				stripBF16(t.steps, &a[q*t.sa], &b[p*t.sb], &out[q*tileRows*ldout+p*tileRows], ldout, begin)
			}
		}
		return
	}
	tilesAMX(t.strips, t.panels, t.steps, &a[0], t.sa, &b[0], t.sb, &out[0], ldout, begin, &t.runs[0], len(t.runs))
}

func splitRows(dst []uint16, ldd, plane int, src []float32, lds, rows, cols int) {
	if impl.Current() != impl.AVX512 {
		splitGeneric(dst, ldd, plane, src, lds, rows, cols)
		return
	}
	_, _ = src[(rows-1)*lds+cols-1], dst[2*plane+(rows-1)*ldd+roundUp(cols, 16)-1]
	splitAVX512(&dst[0], ldd, plane, &src[0], lds, rows, cols)
}

func copyTiles(dst, src []uint16, ld, rows, steps int) int {
	if impl.Current() != impl.AVX512 {
		return copyTilesGeneric(dst, src, ld, rows, steps)
	}
	if steps > 0 {
		_ = src[(rows-1)*ld+steps*tileDepth-1]
		copyTilesAVX512(&dst[:steps*tileElems][0], &src[0], ld, rows, steps)
	}
	return steps
}

func pairTiles(dst, src []uint16, ld, apart, pairs, cols int) int {
	if impl.Current() != impl.AVX512 {
		return pairTilesGeneric(dst, src, ld, apart, pairs, cols)
	}
	if pairs > 0 {
		_ = src[(pairs-1)*ld+apart+cols-1]
		pairTilesAVX512(&dst[:roundUp(pairs, 16)*2*tileRows][0], &src[0], ld, apart, pairs, uint64(1)<<cols-1)
	}
	return pairs
}

func transposeTiles(dst, src []uint16, ld, step, steps int) {
	if impl.Current() != impl.AVX512 {
		transposeTilesGeneric(dst, src, ld, step, steps)
		return
	}
	if steps > 0 {
		_ = src[(steps-1)*step+15*ld+31]
		transposeTilesAVX512(&dst[:(steps-1)*tileElems+tileElems/2][0], &src[0], ld, step, steps)
	}
}

func tilePeak(n int) float64 {
	peakAMX(n)
	return float64(n) * 4 * 16 * 16 * 32 * 2
}
