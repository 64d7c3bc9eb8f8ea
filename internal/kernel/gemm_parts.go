package kernel

import (
	"math"

	"trireme/internal/impl"
)

// Parts is the number of bfloat16 numbers whose sum stands for a float32 operand of a product: 0 multiplies
// float32 numbers, 2 has 16 bits of their 24, 3 has all.
type Parts int

// partProducts lists by Parts the products of a part of a and a part of b that are summed, small ones first.
// Those left out are about 2^-16 of the whole with 2 parts, 2^-24 with 3.
var partProducts = [4][][2]int{
	0: {{0, 0}},
	2: {{1, 0}, {0, 1}, {0, 0}},
	3: {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}},
}

// limits returns the largest packed block of b, in steps of tileDepth and in columns. It stays in L2.
func (p Parts) limits() (steps, cols int) {
	switch p {
	case 2:
		return 14, 768
	case 3:
		return 8, 1024
	}
	return 24, 768
}

// GemmParts is Gemm, with float32 operands as sums of bfloat16 numbers where the processor has tiles:
// each 32 of k add every product of partProducts, one after the other, as gemmTiles adds one. Henry,
// Tang and Heinecke (2019) give the errors; those of 3 parts are of the size of float32's own rounding. A number that
// rounds to an infinite bfloat16, above 3.39e38, is infinite. scratch is GemmPartsScratch's.
func GemmParts(parts Parts, c, a, b Matrix, m, n, k int, accumulate bool, scratch []float32) {
	if parts == 0 || a.H != nil || b.H != nil || !impl.Tiles() || m == 0 || n == 0 || k == 0 {
		Gemm(c, a, b, m, n, k, accumulate, scratch)
		return
	}
	c.check("c", m, n)
	a.check("a", m, k)
	b.check("b", k, n)
	gemmTiles(parts, c, a, b, m, n, k, accumulate, scratch)
}

// GemmPartsScratch is GemmScratch for GemmParts, whatever the types of the operands.
func GemmPartsScratch(parts Parts, m, n, k int) int {
	total := GemmScratch(m, n, k)
	if parts > 0 && impl.Tiles() {
		total = max(total, tileScratch(parts, m, n, k))
	}
	return total
}

// split writes the parts of src, as stored, and returns a matrix of each.
func (g *tiled) split(src Matrix, rows, cols int) (parts [3]Matrix) {
	if src.Trans {
		rows, cols = cols, rows
	}
	ld := roundUp(cols, 16)
	plane := ld * rows
	splitRows(g.planes, ld, plane, src.F, src.LD, rows, cols)
	for i := range parts {
		parts[i] = Matrix{H: g.planes[i*plane:][:plane], LD: ld, Trans: src.Trans}
	}
	return parts
}

// packA packs a strip of rows of a: each part after the other.
func (g *tiled) packA(a Matrix, rows, kb, steps int) {
	if g.parts == 0 {
		packTilesA(g.ap, a, rows, kb, g.tmp)
		return
	}
	for i, part := range g.split(a, rows, kb) {
		if i < int(g.parts) {
			packTilesA(g.ap[i*steps*tileElems:], part, rows, kb, g.tmp)
		}
	}
}

// packB packs a panel of columns of b likewise.
func (g *tiled) packB(dst []uint16, b Matrix, kb, cols, steps int) {
	if g.parts == 0 {
		packTilesB(dst, b, kb, cols)
		return
	}
	for i, part := range g.split(b, kb, cols) {
		if i < int(g.parts) {
			packTilesB(dst[i*steps*tileElems:], part, kb, cols)
		}
	}
}

// splitGeneric sets dst[r*ldd+c], dst[plane+r*ldd+c] and dst[2*plane+r*ldd+c] to the bfloat16 parts of src[r*lds+c],
// whose sum it is: each is the rest that the parts before leave, rounded. The parts after one that is not finite are 0.
func splitGeneric(dst []uint16, ldd, plane int, src []float32, lds, rows, cols int) {
	for r := range rows {
		for c, x := range src[r*lds:][:cols] {
			for p := range 3 {
				at := dst[p*plane+r*ldd+c:][:1]
				f32ToBF16Generic(at, []float32{x})
				if at[0]&0x7f80 == 0x7f80 {
					x = 0
				} else {
					x -= math.Float32frombits(uint32(at[0]) << 16)
				}
			}
		}
	}
}
