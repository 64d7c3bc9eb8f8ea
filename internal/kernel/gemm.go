package kernel

import (
	"fmt"

	"trireme/internal/impl"
)

// Matrix is an operand of Gemm: float32 in F, or 16-bit elements in H, bfloat16 or, with Half,
// float16. Element (i, j) is at i*LD+j, or at j*LD+i if Trans.
type Matrix struct {
	F     []float32
	H     []uint16
	Half  bool
	LD    int
	Trans bool
}

// bfloat16 reports whether tiles can read m.
func (m Matrix) bfloat16() bool { return m.H != nil && !m.Half }

// widen converts elements of H to float32.
func (m Matrix) widen(dst []float32, src []uint16) {
	if m.Half {
		f16ToF32(dst, src)
		return
	}
	bf16ToF32(dst, src)
}

// narrow rounds src to elements of H.
func (m Matrix) narrow(dst []uint16, src []float32) {
	if m.Half {
		f32ToF16(dst, src)
		return
	}
	f32ToBF16(dst, src)
}

// From returns the part of m whose first element is (i, j).
func (m Matrix) From(i, j int) Matrix {
	off := i*m.LD + j
	if m.Trans {
		off = j*m.LD + i
	}
	if m.H != nil {
		m.H = m.H[off:]
	} else {
		m.F = m.F[off:]
	}
	return m
}

func (m Matrix) check(name string, rows, cols int) {
	if m.Trans {
		rows, cols = cols, rows
	}
	if n := max(len(m.F), len(m.H)); rows > 0 && cols > 0 && (cols > m.LD && rows > 1 || (rows-1)*m.LD+cols > n) {
		panic(fmt.Sprintf("kernel: gemm: %s of %d x %d with stride %d does not lie in %d elements", name, rows, cols, m.LD, n))
	}
}

// Gemm computes c [m n] = a [m k] * b [k n], plus c if accumulate.
//
// Each element is one chain of float32 fused multiply-adds over ascending k, starting at 0; with
// accumulate, the old element is added once at the end. All versions give these bits, except that
// products of two bfloat16 matrices have zeros instead of subnormal operands and sums of the chain by
// pairs (gemm_pairs.go), and sum in another order by tiles (tiled). A 16-bit c is rounded once, at
// the end.
// c must not be transposed or overlap a or b. scratch has at least the floats of
// GemmScratch, of any content.
//
// Blocking follows Goto and van de Geijn (2008): kc rows by nc columns of b are packed into
// tile-wide panels that stay in L2 or L3; tile-high strips of a, which stay in L1, pass over them. A sum
// longer than kc is stored and continued. One row reads a transposed b unpacked (gemm_row.go).
func Gemm(c, a, b Matrix, m, n, k int, accumulate bool, scratch []float32) {
	if m == 0 || n == 0 {
		return
	}
	c.check("c", m, n)
	a.check("a", m, k)
	b.check("b", k, n)
	if k == 0 {
		zero(c, m, n, accumulate)
		return
	}
	if m == 1 {
		done := gemmRow(c, a, b, n, k, accumulate, scratch)
		if n -= done; n == 0 {
			return
		}
		c, b = c.From(0, done), b.From(0, done)
	}
	if Parts(0).ByTiles(a, b) {
		g := newTiled(0, c, a, b, m, n, k, accumulate, 1)
		g.alone(scratch)
		return
	}
	g := newGemm(c, a, b, m, n, k, accumulate, 1)
	g.arrange()
	g.alone(scratch)
}

// GemmScratch returns the number of scratch floats for Gemm with matrices like these. A smaller product needs no more.
func GemmScratch(c, a, b Matrix, m, n, k int, accumulate bool) int {
	total := k + 2*rowColumns*rowStream // of gemmRow
	if m == 0 || n == 0 || k == 0 {
		return total
	}
	if Parts(0).ByTiles(a, b) {
		t := newTiled(0, c, a, b, m, n, k, accumulate, 1)
		return max(total, t.scratch(1))
	}
	g := newGemm(c, a, b, m, n, k, accumulate, 1)
	g.gemmShape = limitsOf(impl.Current(), m, n, g.k)
	g.depth = g.kc
	return max(total, g.scratch(1))
}

// zero computes a product with k = 0.
func zero(c Matrix, m, n int, accumulate bool) {
	if accumulate {
		return
	}
	for i := range m {
		if c.H != nil {
			clear(c.H[i*c.LD:][:n])
		} else {
			clear(c.F[i*c.LD:][:n])
		}
	}
}

// gemmShape is the blocking of one version.
type gemmShape struct {
	mr, nr    int  // rows and columns of a tile
	kc, nc    int  // rows and columns of a block of b
	packA     bool // tiles read a only if packed, column by column
	plainRows int  // rows of c up to which an unpacked block of b is faster than a packed one; 0: tiles cannot read it
}

// limitsOf returns the largest blocks of a level; larger products have larger blocks.
func limitsOf(l impl.Level, m, n, k int) gemmShape {
	s := gemmShapes[l]
	if m <= 4*s.mr {
		s.nc = 2 * s.nr // panels of b are read a few times and can stay in L1
	}
	s.kc, s.nc = min(s.kc, even(k, k, 4)), min(s.nc, even(n, n, s.nr))
	return s
}

// even splits n into the fewest equal parts of no more than about limit, and returns their size,
// a multiple of unit.
func even(n, limit, unit int) int {
	parts := max(1, (n+limit-1)/max(1, limit))
	return max(unit, ((n+parts-1)/parts+unit-1)/unit*unit)
}
