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
	elems := t.steps * t.parts.count() * tileElems
	_, _ = a[(t.strips-1)*t.sa+elems-1], b[(t.panels-1)*t.sb+elems-1]
	if impl.Pairs() {
		for q := range t.strips {
			for p := range t.panels {
				stripBF16(t.steps, &a[q*t.sa], &b[p*t.sb], &out[q*tileRows*ldout+p*tileRows], ldout, begin)
			}
		}
		return
	}
	f := tilesAMX
	switch t.parts {
	case 2:
		f = tilesAMXx2
	case 3:
		f = tilesAMXx3
	}
	f(t.strips, t.panels, t.steps, &a[0], t.sa, &b[0], t.sb, &out[0], ldout, begin)
}

func splitSteps(parts Parts, dst []uint16, src tileSource, steps int, transposed bool) {
	if impl.Current() != impl.AVX512 {
		splitStepsGeneric(parts, dst, src, steps, transposed)
		return
	}
	if steps == 0 {
		return
	}
	_, _ = dst[(steps*int(parts)-1)*tileElems+tileElems/2-1], src.f[(steps-1)*src.step+15*src.ld+src.apart+15]
	to, from := &dst[0], &src.f[0]
	switch {
	case parts == 3 && transposed:
		splitTransposedx3AVX512(to, from, src.ld, src.apart, src.step, steps)
	case parts == 3:
		splitTilesx3AVX512(to, from, src.ld, src.apart, src.step, steps)
	case transposed:
		splitTransposedx2AVX512(to, from, src.ld, src.apart, src.step, steps)
	default:
		splitTilesx2AVX512(to, from, src.ld, src.apart, src.step, steps)
	}
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
		pairTilesAVX512(&dst[:(pairs-1)/16*tileElems+tileElems/2+(pairs-1)%16*32+32][0], &src[0], ld, apart, pairs, uint64(1)<<cols-1)
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
