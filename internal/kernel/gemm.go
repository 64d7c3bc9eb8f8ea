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
	if n := max(len(m.F), len(m.H)); cols > m.LD && rows > 1 || (rows-1)*m.LD+cols > n {
		panic(fmt.Sprintf("kernel: gemm: %s of %d x %d with stride %d does not lie in %d elements", name, rows, cols, m.LD, n))
	}
}

// Gemm computes c [m n] = a [m k] * b [k n], plus c if accumulate.
//
// Each element is one chain of float32 fused multiply-adds over ascending k, starting at 0; with
// accumulate, the old element is added once at the end. All versions give these bits, except that
// products of two bfloat16 matrices have zeros instead of subnormal operands and sums of the chain by
// pairs (gemm_pairs.go), and sum in another order by tiles (gemmTiles). A 16-bit c is rounded once, at
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
		gemmTiles(0, c, a, b, m, n, k, accumulate, scratch)
		return
	}
	g := newGemm(c, a, b, k, accumulate)
	g.gemmShape = shapeOf(impl.Current(), m, n, g.k)
	g.splitScratch(scratch, m)
	rows := m
	if g.apart() && g.k > g.kc {
		rows = sumRows
	}
	for i := 0; i < m; i += rows {
		for j := 0; j < n; j += g.nc {
			g.block(i, min(i+rows, m), j, min(j+g.nc, n))
		}
	}
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

// shapeOf returns the blocking of a product, in blocks of equal size.
func shapeOf(l impl.Level, m, n, k int) gemmShape {
	s := limitsOf(l, m, n, k)
	s.kc, s.nc = even(k, s.kc, 4), even(n, s.nc, s.nr)
	return s
}

// even splits n into the fewest equal parts of no more than about limit, and returns their size,
// a multiple of unit.
func even(n, limit, unit int) int {
	parts := max(1, (n+limit-1)/max(1, limit))
	return max(unit, ((n+parts-1)/parts+unit-1)/unit*unit)
}

const (
	sumRows  = 1024 // rows of partial sums kept outside c
	packRows = 128  // approximate rows of a packed at once
	rowGap   = 16   // floats between packed rows of a, to spread their cache lines over sets
)

// gemm is the state of one product.
type gemm struct {
	gemmShape
	c, a, b    Matrix
	k          int  // floats or pairs of a sum
	depth      int  // elements of a sum
	pairs      bool // elements of packed a and b are pairs (gemm_pairs.go)
	accumulate bool
	plain      bool // full panels of the current block of b are not packed

	bp   []float32 // packed b: panels of [kb][nr]
	ap   []float32 // packed a: panels of [kb][mr], or rows
	rows []float32 // rows of b during a transpose
	tile []float32 // a tile at the edge
	sums []float32 // [sumRows][nc] if apart

	prefetch [2]prefetch // prefetch after the current rows
}

func newGemm(c, a, b Matrix, k int, accumulate bool) gemm {
	g := gemm{c: c, a: a, b: b, k: k, depth: k, accumulate: accumulate, pairs: a.bfloat16() && b.bfloat16() && impl.Pairs()}
	if g.pairs {
		g.k = (k + 1) / 2
	}
	return g
}

// apart reports whether partial sums are in sums, not in c.
func (g *gemm) apart() bool { return g.c.H != nil || g.accumulate && g.k > g.kc }

// sizes returns the lengths of the parts of scratch, each a multiple of a cache line.
func (g *gemm) sizes(m int) [5]int {
	line := func(n int) int { return (n + 15) &^ 15 }
	sums := 0
	switch {
	case g.apart() && g.k > g.kc:
		sums = min(m, sumRows)
	case g.apart(): // of the rows that are packed at once; block
		sums = min(m, max(packRows, g.mr))
	}
	return [5]int{
		line(g.kc*g.nc) + 16*transposeRows, // prefetch reads beyond the end of a panel
		line(max(packRows, g.mr) * (g.kc + rowGap)),
		line(transposeRows * g.kc),
		line(g.mr * g.nr),
		line(sums * g.nc),
	}
}

// GemmScratch returns the number of scratch floats for Gemm with matrices like these. A smaller product needs no more.
func GemmScratch(c, a, b Matrix, m, n, k int, accumulate bool) int {
	total := k + 2*rowColumns*rowStream // of gemmRow
	if Parts(0).ByTiles(a, b) {
		t := newTiled(0, c, a, b, n, k, accumulate)
		return max(total, t.scratch(m, n))
	}
	g := newGemm(c, a, b, k, accumulate)
	g.gemmShape = limitsOf(impl.Current(), m, n, g.k)
	need := 0
	for _, n := range g.sizes(m) {
		need += n
	}
	return max(total, need)
}

// splitScratch splits scratch into its parts.
func (g *gemm) splitScratch(scratch []float32, m int) {
	for i, p := range []*[]float32{&g.bp, &g.ap, &g.rows, &g.tile, &g.sums} {
		n := g.sizes(m)[i]
		if len(scratch) < n {
			panic("kernel: gemm: scratch is smaller than GemmScratch says")
		}
		*p, scratch = scratch[:n:n], scratch[n:]
	}
}

// block computes rows [i0, i1) of columns [j0, j1) of c.
func (g *gemm) block(i0, i1, j0, j1 int) {
	step := g.mr
	if g.a.Trans {
		step = max(1, packRows/g.mr) * g.mr
	}
	for k0 := 0; k0 < g.k; k0 += g.kc {
		kb := min(g.kc, g.k-k0)
		b, sb, panel := g.panelsB(k0, kb, j0, i1-i0, j1-j0)
		for i := i0; i < i1; i += step {
			rows := min(step, i1-i)
			a, si, sk, apart := g.panelsA(i, rows, k0, kb)
			g.planPrefetch(i+rows, i0, i1, min(step, i1-i0), j0, j1-j0, k0, kb)
			top := i0 // the first row of sums
			if kb == g.k {
				top = i // sums of earlier rows are done; reusing their memory keeps it in cache
			}
			for r := 0; r < rows; r += g.mr {
				g.sweep(i+r, min(g.mr, rows-r), a[r/g.mr*apart:], si, sk, b, sb, panel, top, j0, j1, k0, kb)
			}
			if g.c.H != nil && k0+kb == g.k && !g.direct() {
				g.narrow(i, i+rows, top, j0, j1)
			}
		}
	}
}

// setStride is the stride in floats that maps all rows to a few L1 sets, as its multiples do.
const setStride = 1024

// panelsB returns the memory from which tiles read rows [k0, k0+kb) of n columns of b from j0 on, with
// row stride sb, in panels of nr columns. A narrower last panel is always packed, at the start of bp
// if the others are not packed.
func (g *gemm) panelsB(k0, kb, j0, rows, n int) (b []float32, sb, panel int) {
	whole := n / g.nr * g.nr
	g.plain = !g.b.Trans && g.b.H == nil && rows <= g.plainRows && g.b.LD%setStride != 0 && whole > 0
	if !g.plain {
		g.packB(k0, kb, j0, n)
		return g.bp, g.nr, g.nr * kb
	}
	if whole < n {
		g.packB(k0, kb, j0+whole, n-whole)
	}
	return g.b.From(k0, j0).F, g.b.LD, g.nr
}

// panelsA returns the memory from which tiles read rows [i, i+rows) of columns [k0, k0+kb) of a. Element
// (r, kk) is at r*si+kk*sk from the start of its panel of mr rows; panels are panel elements apart.
func (g *gemm) panelsA(i, rows, k0, kb int) (a []float32, si, sk, panel int) {
	if g.pairs {
		return g.pairsA(i, rows, k0, kb)
	}
	src := g.a.From(i, k0)
	switch {
	case g.a.Trans || g.packA:
		packColumns(g.ap, src, g.mr, rows, kb, g.rows)
		return g.ap, 1, g.mr, g.mr * kb
	case g.a.H != nil:
		ld := kb + rowGap
		for r := range rows {
			packRow(g.ap[r*ld:][:kb], src.From(r, 0))
		}
		return g.ap, ld, 1, g.mr * ld
	}
	return src.F, g.a.LD, 1, g.mr * g.a.LD
}

// sweep computes rows [i, i+rows) of a block, up to mr, from their panel a. Row top is the first row
// of sums.
func (g *gemm) sweep(i, rows int, a []float32, si, sk int, b []float32, sb, panel, top, j0, j1, k0, kb int) {
	first, last := k0 == 0, k0+kb == g.k
	t := gemmTile{k: kb, si: si, sk: sk, pairs: g.pairs}
	c := i*g.c.LD + j0
	sums, ldsum, sum := g.c.F, g.c.LD, c
	if g.apart() {
		sums, ldsum, sum = g.sums, g.nc, (i-top)*g.nc
	}
	for j := 0; j < j1-j0; j += g.nr {
		t.cols = min(g.nr, j1-j0-j)
		t.b, t.sb = b, sb
		if t.cols < g.nr && g.plain {
			t.b, t.sb = g.bp, g.nr
		}
		t.out, t.ldout = sums[sum+j:], ldsum
		t.in, t.ldin = nil, 0
		if !first {
			t.in, t.ldin = t.out, t.ldout
		}
		t.half, t.ldhalf = nil, 0
		if last && g.direct() {
			t.half, t.ldhalf = g.c.H[c+j:], g.c.LD
		}
		t.add = false
		if last && g.accumulate && g.c.H == nil {
			t.out, t.ldout, t.add = g.c.F[c+j:], g.c.LD, true
		}
		t.a = a
		t.pf, t.pfstep = a, 0
		for s := range g.prefetch {
			if p := g.prefetch[s].next(kb); p != nil {
				t.pf, t.pfstep = p, g.prefetch[s].step
				break
			}
		}
		g.compute(&t, rows)
		if t.cols == g.nr {
			b = b[panel:]
		}
	}
}

// direct reports whether tiles round finished sums to c. Sums of pairs are never subnormal, which the instruction would change.
func (g *gemm) direct() bool { return g.pairs && g.c.bfloat16() && !g.accumulate }

// narrow rounds finished sums, from row top on, to 16 bits, after adding the old c if it accumulates.
func (g *gemm) narrow(i0, i1, top, j0, j1 int) {
	old := g.tile[:min(len(g.tile), 64)]
	for i := i0; i < i1; i++ {
		dst, sum := g.c.H[i*g.c.LD+j0:][:j1-j0], g.sums[(i-top)*g.nc:][:j1-j0]
		for j := 0; g.accumulate && j < len(sum); j += len(old) {
			n := min(len(old), len(sum)-j)
			g.c.widen(old[:n], dst[j:j+n])
			add(sum[j:j+n], old[:n], sum[j:j+n])
		}
		g.c.narrow(dst, sum)
	}
}
