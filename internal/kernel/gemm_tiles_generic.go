package kernel

import "math"

// tilesOf is the size of a product of packed tiles: strips of 32 rows, panels of 32 columns, steps of
// 32 of k. Strips of a and panels of b start sa and sb elements apart. A step has the tiles of each part, if there are several.
type tilesOf struct {
	strips, panels, steps, sa, sb int
	parts                         Parts
}

// tilesGeneric computes out [32*strips 32*panels] = a b, or += unless first, from a and b as packed by
// packTilesA and packTilesB, or splitTiles. It sums as gemm_tiles.go and NewProduct say, or, with pairs, one fused multiply-add after the
// other, in ascending pairs of k with the second element first.
func tilesGeneric(t tilesOf, a, b []uint16, out []float32, ldout int, first, pairs bool) {
	for q := range t.strips {
		for p := range t.panels {
			for s := range t.steps {
				for i, of := range partProducts[t.parts] {
					at := func(part int) int { return (s*t.parts.count() + part) * tileElems }
					stripGeneric(1, a[q*t.sa+at(of[0]):], b[p*t.sb+at(of[1]):], out[q*tileRows*ldout+p*tileRows:], ldout, first && s+i == 0, pairs)
				}
			}
		}
	}
}

// stripGeneric computes one strip and one panel of tilesGeneric.
func stripGeneric(steps int, a, b []uint16, out []float32, ldout int, first, pairs bool) {
	for r := range tileRows {
		for n := range tileRows {
			var sum float32
			if !first {
				sum = ftz(out[r*ldout+n])
			}
			for s := range steps {
				row := a[s*tileElems+r*tileDepth:][:tileDepth]
				col := b[s*tileElems+n/16*tileElems/2+n%16*2:]
				if pairs {
					for k := 0; k < tileDepth; k += 2 {
						sum = ftz(fma32(fromBF16(row[k+1]), fromBF16(col[k/2*32+1]), sum))
						sum = ftz(fma32(fromBF16(row[k]), fromBF16(col[k/2*32]), sum))
					}
					continue
				}
				var even, odd float32
				for k := 0; k < tileDepth; k += 2 {
					even = ftz(fma32(fromBF16(row[k]), fromBF16(col[k/2*32]), even))
					odd = ftz(fma32(fromBF16(row[k+1]), fromBF16(col[k/2*32+1]), odd))
				}
				sum = ftz(sum + ftz(even+odd))
			}
			out[r*ldout+n] = sum
		}
	}
}

// ftz returns x, or a zero of its sign if x is subnormal.
func ftz(x float32) float32 {
	if u := math.Float32bits(x); u&0x7f800000 == 0 {
		return math.Float32frombits(u & 0x80000000)
	}
	return x
}

// fromBF16 widens x, flushing subnormals to 0.
func fromBF16(x uint16) float32 { return ftz(math.Float32frombits(uint32(x) << 16)) }

// copyTilesGeneric copies rows of 32*steps elements: row r of step s to dst[s*tileElems+r*32:]. It
// returns the number of steps done.
func copyTilesGeneric(dst, src []uint16, ld, rows, steps int) int {
	for r := range rows {
		for s := range steps {
			copy(dst[s*tileElems+r*tileDepth:][:tileDepth], src[r*ld+s*tileDepth:])
		}
	}
	return steps
}

// pairTilesGeneric interleaves pairs of rows, up to 32 columns: column n of pair p, whose rows start
// at p*ld and apart after it, goes to
// dst[p/16*tileElems+n/16*tileElems/2+p%16*32+n%16*2:]. Columns beyond cols become 0. It returns the
// number of pairs done.
func pairTilesGeneric(dst, src []uint16, ld, apart, pairs, cols int) int {
	for p := range pairs {
		d := dst[p/16*tileElems+p%16*32:]
		for n := range tileRows {
			x, y := uint16(0), uint16(0)
			if n < cols {
				x, y = src[p*ld+n], src[p*ld+apart+n]
			}
			at := n/16*tileElems/2 + n%16*2
			d[at], d[at+1] = x, y
		}
	}
	return pairs
}

// transposeTilesGeneric transposes 16 x 16 pairs of elements, steps times: pair p of row r, at
// src[r*ld+2*p:], goes to dst[p*32+2*r:]. src advances by step elements, dst by tileElems.
func transposeTilesGeneric(dst, src []uint16, ld, step, steps int) {
	for s := range steps {
		for r := range 16 {
			for p := range 16 {
				from := s*step + r*ld + 2*p
				to := s*tileElems + p*32 + 2*r
				dst[to], dst[to+1] = src[from], src[from+1]
			}
		}
	}
}
