package kernel

import "math"

// attnTileSoftmaxGeneric replaces scores s [keys][64] of 64 queries by 2^(s*scale-top), or 0 if the query's
// bit in the key's seen is clear. It adds them to sum, takes the maximum scaled score into top, and
// sets corr to the factor for earlier results. Powers whose bit in kept is set are rounded to
// dst in pairs of keys: key k and query q go to half k%2 of lane q%16 of row k%32/2 of tile q/16%2 of
// step k/32 of panel q/32; others are 0. Panels are panel elements apart; the number of keys is a
// multiple of 32.
func attnTileSoftmaxGeneric(dst []uint16, panel int, s []float32, seen, kept []uint64, scale float32, top, sum, corr *[attnQueries]float32) {
	for q := range attnQueries {
		m := top[q]
		for k, bits := range seen {
			if x := s[k*attnQueries+q] * scale; bits>>q&1 != 0 && x > m {
				m = x
			}
		}
		base := m
		if base == attnNegInf {
			base = 0
		}
		corr[q] = exp2(top[q] - base)
		var t float32
		for k, bits := range seen {
			var p float32
			if bits>>q&1 != 0 {
				p = exp2(fma32(s[k*attnQueries+q], scale, -base))
			}
			t += p
			if kept[k]>>q&1 == 0 {
				p = 0
			}
			dst[q/32*panel+k/32*tileElems+q/16%2*tileElems/2+k%32/2*32+q%16*2+k%2] = roundBF16Away(p)
		}
		top[q], sum[q] = m, sum[q]*corr[q]+t
	}
}

// attnTileGradientGeneric computes probabilities x = 2^(s*scale-lse) of scores s [keys][64], 0 if the
// query's bit in the key's seen is clear, and gradients z = x*(dp-d), with dp = 0 if its bit in kept
// is clear. x, if kept, and z go to p and ds: key k and query q to half q/16%2 of lane q%16 of row
// k%32 of step q/32 of strip k/32. Strips are strip elements apart. z also goes to pairs, in the
// layout of dst in attnTileSoftmaxGeneric.
func attnTileGradientGeneric(p, ds []uint16, strip int, pairs []uint16, panel int, s, dp []float32, seen, kept []uint64, scale float32, lse, d []float32) {
	for k, bits := range seen {
		for q := range attnQueries {
			var x, z, y float32
			if kept[k]>>q&1 != 0 {
				y = dp[k*attnQueries+q]
			}
			if bits>>q&1 != 0 {
				x = exp2(fma32(s[k*attnQueries+q], scale, -lse[q]))
				z = x * (y - d[q])
			}
			if kept[k]>>q&1 == 0 {
				x = 0
			}
			at := k/32*strip + q/32*tileElems + k%32*32 + q%16*2 + q/16%2
			p[at], ds[at] = roundBF16Away(x), roundBF16Away(z)
			pairs[q/32*panel+k/32*tileElems+q/16%2*tileElems/2+k%32/2*32+q%16*2+k%2] = roundBF16Away(z)
		}
	}
}

// attnScaleColumnsGeneric multiplies columns of x [rows][64] by f.
func attnScaleColumnsGeneric(x []float32, rows int, f *[attnQueries]float32) {
	for r := range rows {
		for q, y := range f {
			x[r*attnQueries+q] *= y
		}
	}
}

// attnDropMaskGeneric sets bit i%64 of dst[i/64] if words[i] >= below, and clears the other bits of
// those words.
func attnDropMaskGeneric(dst []uint64, words []uint32, below uint32) {
	for i := 0; i < len(words); i += 64 {
		var bits uint64
		for k, w := range words[i:min(i+64, len(words))] {
			bits |= uint64(1-(uint64(w)-uint64(below))>>63) << k
		}
		dst[i/64] = bits
	}
}

// transposeBits transposes 64 x 64 bits, by halves of ever smaller squares.
func transposeBits(x *[64]uint64) {
	for half, low := 32, uint64(1<<32-1); half > 0; half, low = half/2, low^low<<(half/2) {
		for i := range x {
			if i&half == 0 {
				swap := (x[i]>>half ^ x[i+half]) & low
				x[i] ^= swap << half
				x[i+half] ^= swap
			}
		}
	}
}

// roundBF16Away rounds to the nearest, ties away from zero.
func roundBF16Away(x float32) uint16 { return uint16((math.Float32bits(x) + 0x8000) >> 16) }
