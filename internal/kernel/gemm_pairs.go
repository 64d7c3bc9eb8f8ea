package kernel

import "math"

// Products of two bfloat16 matrices with VDPBF16PS (impl.Pairs) are blocked as those of float32
// matrices, with pairs of k in place of floats: a pair (x, y) of adjacent k is the word with x in its
// upper half. The instruction adds the product of the upper halves, then that of the lower halves, each
// by a fused multiply-add that rounds to nearest, so a sum is Gemm's chain over ascending k. Operands
// and sums that are subnormal are 0 in it. A sum of odd length ends with a pair whose y is 0, which makes a
// sum of -0 a 0.

// pair returns the word of a pair.
func pair(x, y uint16) float32 { return math.Float32frombits(uint32(x)<<16 | uint32(y)) }

// pairsOf returns the elements of kb pairs from k0 on.
func (g *gemm) pairsOf(k0, kb int) int { return min(2*kb, g.elements-2*k0) }

// packPairsB is packB for pairs.
func (g *gemm) packPairsB(dst []float32, k0, kb, j0, n int) {
	src, depth := g.b.From(2*k0, j0), g.pairsOf(k0, kb)
	some := depth
	if !src.Trans {
		some = 64 // elements of all panels at a time, so that the source is read along its rows
	}
	for k := 0; k < depth; k += some {
		for j := 0; j < n; j += g.nr {
			packPairs(dst[j*kb+k/2*g.nr:], g.nr, src.From(k, j), min(some, depth-k), min(g.nr, n-j))
		}
	}
}

// pairsA is panelsA for pairs.
func (g *gemm) pairsA(i, rows, k0, kb int) (a []float32, si, sk, panel int) {
	src, depth := g.a.From(i, 2*k0), g.pairsOf(k0, kb)
	if src.Trans {
		src.Trans = false // the matrix whose columns are the rows of a
		const some = 128
		for k := 0; k < depth; k += some {
			for r := 0; r < rows; r += g.mr {
				packPairs(g.ap[r*kb+k/2*g.mr:], g.mr, src.From(k, r), min(some, depth-k), min(g.mr, rows-r))
			}
		}
		return g.ap, 1, g.mr, g.mr * kb
	}
	ld := kb + rowGap
	for r := range rows {
		row := src.From(r, 0).H[:depth]
		swapPairs(g.ap[r*ld:], row)
		if depth%2 != 0 {
			g.ap[r*ld+kb-1] = pair(row[depth-1], 0)
		}
	}
	return g.ap, ld, 1, g.mr * ld
}

// packPairs sets dst[p*ldd+c] to elements (2p, c) and (2p+1, c) of src, for all pairs of depth elements
// and c in [0, cols).
func packPairs(dst []float32, ldd int, src Matrix, depth, cols int) {
	if !src.Trans {
		pairRows(dst, ldd, src, depth/2, cols)
		if depth%2 != 0 {
			for c, x := range src.From(depth-1, 0).H[:cols] {
				dst[depth/2*ldd+c] = pair(x, 0)
			}
		}
		return
	}
	for c := 0; c < cols; c += transposeRows {
		part, done := src.From(0, c), 0
		rows := min(transposeRows, cols-c)
		if rows == transposeRows {
			done = transposePairs(dst[c:], ldd, part, depth/2)
		}
		for r := range rows {
			row := part.From(0, r).H[:depth]
			for p := done; p < depth/2; p++ {
				dst[p*ldd+c+r] = pair(row[2*p], row[2*p+1])
			}
			if depth%2 != 0 {
				dst[depth/2*ldd+c+r] = pair(row[depth-1], 0)
			}
		}
	}
}
