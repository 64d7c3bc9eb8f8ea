package kernel

import "trireme/internal/impl"

const (
	sumRows  = 1024 // rows of partial sums kept outside c
	packRows = 128  // approximate rows of a packed at once
	rowGap   = 16   // floats between packed rows of a, to spread their cache lines over sets
)

// gemm is a thread's state of one product.
type gemm struct {
	grid
	gemmShape
	c, a, b    Matrix
	elements   int  // of a sum; grid counts floats or pairs
	pairs      bool // elements of packed a and b are pairs (gemm_pairs.go)
	accumulate bool
	plain      bool // full panels of the current block of b are not packed

	packed  []float32 // packed b: panels of [kb][nr], for stages in turn
	buffers int       // blocks in packed
	shared  []float32 // partial sums, if apart and continued: [rows][nc]
	ap      []float32 // packed a: panels of [kb][mr], or rows
	lines   []float32 // rows of b during a transpose
	tile    []float32 // a tile at the edge
	sums    []float32 // sums if apart and not continued: [rows][nc]

	prefetch [2]prefetch // prefetch after the current rows
}

func newGemm(c, a, b Matrix, m, n, k int, accumulate bool, threads int) gemm {
	g := gemm{c: c, a: a, b: b, elements: k, accumulate: accumulate, pairs: a.bfloat16() && b.bfloat16() && impl.Pairs()}
	g.grid = grid{m: m, n: n, k: k, threads: threads}
	if g.pairs {
		g.k = (k + 1) / 2
	}
	return g
}

// arrange sets the blocks of a product.
func (g *gemm) arrange() {
	s := limitsOf(impl.Current(), g.m, g.n, g.k)
	cols := splitColumns(g.m, g.n, s.mr, s.nr, s.nc, g.threads)
	s.kc, cols = deepen(g.k, s.kc, s.nc, cols, s.nr, g.threads, count(g.m, s.mr))
	s.kc, s.nc = even(g.k, s.kc, 4), even(g.n, cols, s.nr)
	g.gemmShape = s
	g.rows, g.cols, g.depth = g.m, g.nc, g.kc
	if g.apart() && g.continued() {
		g.rows = min(g.m, sumRows)
	}
	g.chunk = splitRows(g.rows, g.threads, g.mr, g.step(), g.a.Trans)
}

// apart reports whether partial sums are in sums, not in c.
func (g *gemm) apart() bool { return g.c.H != nil || g.accumulate && g.continued() }

// step is the number of rows of a that are packed at once.
func (g *gemm) step() int {
	if g.a.Trans {
		return max(1, packRows/g.mr) * g.mr
	}
	return g.mr
}

// line is n rounded up to cache lines.
func line(n int) int { return (n + 15) &^ 15 }

// sharedSizes returns the floats of a packed block of b and of the sums that threads share.
func (g *gemm) sharedSizes() (block, sums int) {
	if g.apart() && g.continued() {
		sums = line(min(g.m, sumRows) * g.nc)
	}
	return line(g.kc*g.nc) + 16*transposeRows, sums // prefetch reads beyond the end of a panel
}

// ownSizes returns the floats of a thread's parts of scratch.
func (g *gemm) ownSizes() (sizes [4]int) {
	sizes = [4]int{line(max(packRows, g.mr) * (g.kc + rowGap)), line(transposeRows * g.kc), line(g.mr * g.nr), 0}
	if g.apart() && !g.continued() {
		sizes[3] = line(min(g.m, max(packRows, g.mr)) * g.nc)
	}
	return sizes
}

// scratch returns the floats of scratch, with packed blocks of b for some stages at a time.
func (g *gemm) scratch(buffers int) int {
	block, sums := g.sharedSizes()
	own := g.ownSizes()
	return buffers*block + sums + g.threads*(own[0]+own[1]+own[2]+own[3])
}

// take splits scratch for a thread.
func (g *gemm) take(thread, buffers int, scratch []float32) {
	next := func(n int) (part []float32) {
		part, scratch = scratch[:n:n], scratch[n:]
		return part
	}
	block, sums := g.sharedSizes()
	g.packed, g.buffers, g.shared = next(buffers*block), buffers, next(sums)
	own := g.ownSizes()
	next(thread * (own[0] + own[1] + own[2] + own[3]))
	g.ap, g.lines, g.tile, g.sums = next(own[0]), next(own[1]), next(own[2]), next(own[3])
}

// alone computes the product on one thread.
func (g *gemm) alone(scratch []float32) {
	g.take(0, 1, scratch)
	for stage := range g.stages() {
		g.pack(stage, 0)
		g.multiply(stage, 0)
	}
}

// packedB is the memory of a stage's block of b.
func (g *gemm) packedB(stage int) []float32 {
	n := len(g.packed) / g.buffers
	return g.packed[stage%g.buffers*n:][:n]
}

// unpacked reports whether tiles read a block of b in place, except for a narrower last panel. rows and n are those of its block of c.
func (g *gemm) unpacked(rows, n int) bool {
	return !g.b.Trans && g.b.H == nil && rows <= g.plainRows && g.b.LD%setStride != 0 && n >= g.nr
}

// pack packs a part of a stage's block of b. A narrower last panel is at the start of the block if the others are not packed.
func (g *gemm) pack(stage, part int) {
	i0, i1, j0, j1, k0, kb := g.block(stage)
	n, to := j1-j0, g.packedB(stage)
	lo, hi := g.share(n, part, g.nr)
	if g.unpacked(i1-i0, n) {
		whole := n / g.nr * g.nr
		if part > 0 || whole == n {
			return
		}
		j0, lo, hi = j0+whole, 0, n-whole
	}
	if lo < hi {
		g.packB(to[lo*kb:], k0, kb, j0+lo, hi-lo)
	}
}

// multiply computes a chunk of rows of a stage's block.
func (g *gemm) multiply(stage, chunk int) {
	i0, i1, j0, j1, k0, kb := g.block(stage)
	b, sb, panel := g.packedB(stage), g.nr, g.nr*kb
	edge := b
	if g.plain = g.unpacked(i1-i0, j1-j0); g.plain {
		b, sb, panel = g.b.From(k0, j0).F, g.b.LD, g.nr
	}
	sums := g.sums
	if g.continued() {
		sums = g.shared
	}
	step := g.step()
	first, end := g.chunkRows(chunk, i0, i1)
	for i := first; i < end; i += step {
		rows := min(step, end-i)
		a, si, sk, apart := g.panelsA(i, rows, k0, kb)
		g.planPrefetch(i+rows, i0, i1, min(step, i1-i0), j0, j1-j0, k0, kb)
		top := i0 // the first row of sums
		if !g.continued() {
			top = i // sums of earlier rows are done; reusing their memory keeps it in cache
		}
		for r := 0; r < rows; r += g.mr {
			g.sweep(sums, edge, i+r, min(g.mr, rows-r), a[r/g.mr*apart:], si, sk, b, sb, panel, top, j0, j1, k0, kb)
		}
		if g.c.H != nil && k0+kb == g.k && !g.direct() {
			g.narrow(sums, i, i+rows, top, j0, j1)
		}
	}
}

// setStride is the stride in floats that maps all rows to a few L1 sets, as its multiples do.
const setStride = 1024

// panelsA returns the memory from which tiles read rows [i, i+rows) of columns [k0, k0+kb) of a. Element
// (r, kk) is at r*si+kk*sk from the start of its panel of mr rows; panels are panel elements apart.
func (g *gemm) panelsA(i, rows, k0, kb int) (a []float32, si, sk, panel int) {
	if g.pairs {
		return g.pairsA(i, rows, k0, kb)
	}
	src := g.a.From(i, k0)
	switch {
	case g.a.Trans || g.packA:
		packColumns(g.ap, src, g.mr, rows, kb, g.lines)
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
// of sums. edge is a narrower last panel of b, if the others are not packed.
func (g *gemm) sweep(sums, edge []float32, i, rows int, a []float32, si, sk int, b []float32, sb, panel, top, j0, j1, k0, kb int) {
	first, last := k0 == 0, k0+kb == g.k
	t := gemmTile{k: kb, si: si, sk: sk, pairs: g.pairs}
	c := i*g.c.LD + j0
	ldsum, sum := g.nc, (i-top)*g.nc
	if !g.apart() {
		sums, ldsum, sum = g.c.F, g.c.LD, c
	}
	for j := 0; j < j1-j0; j += g.nr {
		t.cols = min(g.nr, j1-j0-j)
		t.b, t.sb = b, sb
		if t.cols < g.nr && g.plain {
			t.b, t.sb = edge, g.nr
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
func (g *gemm) narrow(sums []float32, i0, i1, top, j0, j1 int) {
	old := g.tile[:min(len(g.tile), 64)]
	for i := i0; i < i1; i++ {
		dst, sum := g.c.H[i*g.c.LD+j0:][:j1-j0], sums[(i-top)*g.nc:][:j1-j0]
		for j := 0; g.accumulate && j < len(sum); j += len(old) {
			n := min(len(old), len(sum)-j)
			g.c.widen(old[:n], dst[j:j+n])
			add(sum[j:j+n], old[:n], sum[j:j+n])
		}
		g.c.narrow(dst, sum)
	}
}
