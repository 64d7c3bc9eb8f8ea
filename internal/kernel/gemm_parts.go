package kernel

import (
	"math"

	"trireme/internal/impl"
)

// Parts is the number of bfloat16 numbers whose sum stands for a float32 operand of a product: 0 multiplies
// float32 numbers, 2 has 16 bits of their 24, 3 has all.
type Parts int

// partProducts lists by Parts the products of a part of a and a part of b that are summed. Those left out are about
// 2^-16 of the whole with 2 parts, 2^-24 with 3. Each has a factor of the one before, one of whose tiles stays.
var partProducts = [4][][2]int{
	0: {{0, 0}},
	2: {{1, 0}, {0, 0}, {0, 1}},
	3: {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}},
}

// count returns the tiles of an operand, for one of its own.
func (p Parts) count() int { return max(1, int(p)) }

// ByTiles reports whether a Product multiplies matrices like a and b by tiles.
func (p Parts) ByTiles(a, b Matrix) bool {
	return impl.Tiles() && (a.bfloat16() && b.bfloat16() || p > 0 && a.H == nil && b.H == nil)
}

// limits returns the largest packed block of b, in steps of tileDepth and in columns. It stays in L2.
func (p Parts) limits() (steps, cols int) {
	switch p {
	case 2:
		return 14, 768
	case 3:
		return 12, 512
	}
	return 24, 768
}

// GemmParts is a Product on one thread.
func GemmParts(parts Parts, c, a, b Matrix, m, n, k int, accumulate bool, scratch []float32) {
	if a.H != nil || b.H != nil || !parts.ByTiles(a, b) || m == 0 || n == 0 || k == 0 {
		Gemm(c, a, b, m, n, k, accumulate, scratch)
		return
	}
	c.check("c", m, n)
	a.check("a", m, k)
	b.check("b", k, n)
	g := newTiled(parts, c, a, b, m, n, k, accumulate, 1)
	g.alone(scratch)
}

// GemmPartsScratch is GemmScratch for GemmParts.
func GemmPartsScratch(parts Parts, c, a, b Matrix, m, n, k int, accumulate bool) int {
	if a.H != nil || b.H != nil || !parts.ByTiles(a, b) || m == 0 || n == 0 || k == 0 {
		return GemmScratch(c, a, b, m, n, k, accumulate)
	}
	g := newTiled(parts, c, a, b, m, n, k, accumulate, 1)
	return g.scratch(1)
}

// packA packs strips of rows of a.
func (g *tiled) packA(a Matrix, rows, kb, steps int) {
	if g.parts == 0 {
		packTilesA(g.ap, g.panel(steps), a, rows, kb, g.tmp)
		return
	}
	splitTiles(g.parts, g.ap, g.panel(steps), a, rows, kb, a.Trans)
}

// packB packs panels of columns of b likewise.
func (g *tiled) packB(dst []uint16, b Matrix, kb, cols, steps int) {
	if g.parts == 0 {
		packTilesB(dst, g.panel(steps), b, kb, cols)
		return
	}
	b.Trans = !b.Trans
	splitTiles(g.parts, dst, g.panel(steps), b, cols, kb, !b.Trans)
}

// splitTiles packs lines of m, kb elements each, as panels of 32, stride elements apart, as the parts of a step's tiles, each of
// two tiles of 16 lines. The elements of a line become a row of a tile, as in a, or with transposed a column of pairs, as in b,
// if m is not transposed; with a transposed m it is the other way round. Elements beyond kb are 0; lines beyond lines are undefined.
func splitTiles(parts Parts, dst []uint16, stride int, m Matrix, lines, kb int, transposed bool) {
	some := kb
	if m.Trans {
		some = tileDepth // of all lines at a time, so that the source is read along its rows
	}
	for k := 0; k < kb; k += some {
		for i := 0; i < lines; i += 16 {
			to := dst[i/tileRows*stride+i%tileRows/16*tileElems/2+k/tileDepth*parts.count()*tileElems:]
			splitLines(parts, to, m.From(i, k), min(16, lines-i), min(some, kb-k), transposed)
		}
	}
}

// splitLines is splitTiles for up to 16 lines.
func splitLines(parts Parts, dst []uint16, m Matrix, lines, kb int, transposed bool) {
	whole := 0
	if lines == 16 {
		whole = kb / tileDepth
		t := tileSource{m.F, m.LD, 16, tileDepth}
		if m.Trans {
			t = tileSource{m.F, m.LD, 16 * m.LD, tileDepth * m.LD}
		}
		splitSteps(parts, dst, t, whole, transposed)
	}
	for s := whole; s*tileDepth < kb; s++ {
		splitEdge(parts, dst[s*parts.count()*tileElems:], m.From(0, s*tileDepth), lines, min(tileDepth, kb-s*tileDepth), transposed != m.Trans)
	}
}

// splitEdge is splitTiles for a step of up to 16 lines, m's elements by lines.
func splitEdge(parts Parts, dst []uint16, m Matrix, lines, kb int, transposed bool) {
	var edge [16 * tileDepth]float32
	for r := range lines {
		for k := range kb {
			edge[r*tileDepth+k] = m.From(r, k).F[0]
		}
	}
	splitSteps(parts, dst, tileSource{edge[:], tileDepth, 16, tileDepth}, 1, transposed)
}

// tileSource is a matrix that is packed as halves of tiles: element i of half h of row r of a step is at
// s*step+r*ld+h*apart+i, r and i in [0, 16).
type tileSource struct {
	f               []float32
	ld, apart, step int
}

// splitStepsGeneric writes the parts of steps tiles: elements of a row of src become words of a row of a tile, or with transposed of a column,
// those of both halves beside each other.
func splitStepsGeneric(parts Parts, dst []uint16, src tileSource, steps int, transposed bool) {
	for s := range steps {
		for at := range 16 * tileDepth {
			r, i, h := at/tileDepth, at%tileDepth/2, at%2
			to := at
			if transposed {
				to = i*tileDepth + 2*r + h
			}
			of := splitFloat(src.f[s*src.step+r*src.ld+h*src.apart+i])
			for p, x := range of[:parts] {
				dst[(s*int(parts)+p)*tileElems+to] = x
			}
		}
	}
}

// splitFloat returns the bfloat16 parts of x: each is the rest that the parts before leave, which is exact, rounded to
// nearest, ties away from zero. The parts after one that is not finite are 0.
func splitFloat(x float32) (parts [3]uint16) {
	for p := range parts {
		u := math.Float32bits(x)
		if x != x {
			parts[p] = uint16((u | 0x400000) >> 16)
			break
		}
		parts[p] = uint16((u + 0x8000) >> 16)
		if parts[p]&0x7f80 == 0x7f80 {
			break
		}
		x -= math.Float32frombits(uint32(parts[p]) << 16)
	}
	return parts
}
