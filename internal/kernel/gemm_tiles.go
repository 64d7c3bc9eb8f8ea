package kernel

import "unsafe"

// Products of two bfloat16 matrices have their own version on processors with tiles (impl.AMX), and
// round differently: the sum of an element starts at 0, and each 32 of k, in ascending order, add
//
//	even, odd := 0, 0
//	for kk in 0, 2, ..., 30: even = fma(a[kk], b[kk], even); odd = fma(a[kk+1], b[kk+1], odd)
//	sum += even + odd
//
// in float32. a and b are 0 beyond k, and subnormal inputs and results are 0. The order does not
// depend on an element's position, so threads and ranks agree; a processor without tiles rounds
// differently. tilesGeneric is this in Go.
const (
	tileRows  = 32            // rows of a strip of a, and columns of a panel of b
	tileDepth = 32            // extent of a tile along k
	tileElems = tileRows * 32 // per step: 32 rows or columns by 32 of k
)

// stripsAtOnce is the number of strips of 32 rows of a that are packed together: a transposed a is read along its
// rows, which the processor's prefetch needs.
const stripsAtOnce = 4

// tiled is a thread's state of one product.
type tiled struct {
	grid
	c, a, b    Matrix
	parts      Parts
	accumulate bool
	steps, nc  int // of a block
	apart      bool

	packed  []uint16  // packed b, for stages in turn
	buffers int       // blocks in packed
	shared  []float32 // partial sums, if apart: [rows][nc]
	ap, tmp []uint16
	sums    []float32 // of a strip
}

func newTiled(parts Parts, c, a, b Matrix, m, n, k int, accumulate bool, threads int) tiled {
	g := tiled{c: c, a: a, b: b, parts: parts, accumulate: accumulate}
	steps, whole := parts.limits()
	whole = min(whole, roundUp(n, tileRows))
	cols := splitColumns(m, n, tileRows, tileRows, whole, threads)
	steps, cols = deepen(count(k, tileDepth), steps, whole, cols, tileRows, threads, count(m, tileRows))
	g.steps, g.nc = even(count(k, tileDepth), steps, 1), even(n, cols, tileRows)
	g.grid = grid{m: m, n: n, k: k, rows: m, cols: g.nc, depth: g.steps * tileDepth, threads: threads}
	if g.apart = g.continued() && (c.H != nil || accumulate); g.apart {
		g.rows = min(m, sumRows)
	}
	g.chunk = splitRows(g.rows, threads, tileRows, stripsAtOnce*tileRows, a.Trans)
	return g
}

// sizes returns the lengths of the parts of scratch, in floats: of a packed block and of sums that threads share, and of each
// thread's own. With threads 1 a smaller product needs no more.
func (g *tiled) sizes() (block, shared, ap, tmp, sums int) {
	steps, cols := g.steps, g.nc
	if g.threads == 1 {
		steps, cols = g.parts.limits()
		steps, cols = min(steps, count(g.k, tileDepth)), min(cols, roundUp(g.n, tileRows))
	}
	if g.apart {
		shared = roundUp(min(g.m, sumRows), tileRows) * cols
	}
	tmp = tileElems / 2 * steps * min(stripsAtOnce, count(g.m, tileRows))
	return g.parts.count() * cols * tileDepth / 2 * steps, shared, g.parts.count() * tmp, tmp, tileRows * cols
}

// scratch returns the floats of scratch, with packed blocks of b for some stages at a time.
func (g *tiled) scratch(buffers int) int {
	block, shared, ap, tmp, sums := g.sizes()
	return buffers*block + shared + g.threads*(ap+tmp+sums) + 16 // to align to a cache line
}

// take splits scratch for a thread.
func (g *tiled) take(thread, buffers int, scratch []float32) {
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(scratch)))/4) & 15
	scratch = scratch[skip:]
	next := func(n int) (part []float32) {
		part, scratch = scratch[:n:n], scratch[n:]
		return part
	}
	block, shared, ap, tmp, sums := g.sizes()
	g.packed, g.buffers, g.shared = halves(next(buffers*block)), buffers, next(shared)
	next(thread * (ap + tmp + sums))
	g.ap, g.tmp, g.sums = halves(next(ap)), halves(next(tmp)), next(sums)
}

// alone computes the product on one thread.
func (g *tiled) alone(scratch []float32) {
	g.take(0, 1, scratch)
	for stage := range g.stages() {
		g.pack(stage, 0)
		g.multiply(stage, 0)
	}
}

// packedB is the memory of a stage's block of b.
func (g *tiled) packedB(stage int) []uint16 {
	n := len(g.packed) / g.buffers
	return g.packed[stage%g.buffers*n:][:n]
}

// pack packs a part of a stage's block of b.
func (g *tiled) pack(stage, part int) {
	_, _, j0, j1, k0, kb := g.block(stage)
	steps := count(kb, tileDepth)
	if lo, hi := g.share(j1-j0, part, tileRows); lo < hi {
		to := g.packedB(stage)[lo/tileRows*g.panel(steps):]
		g.packB(to, g.b.From(k0, j0+lo), kb, hi-lo, steps)
	}
}

// multiply computes a chunk of rows of a stage's block.
func (g *tiled) multiply(stage, chunk int) {
	i0, i1, j0, j1, k0, kb := g.block(stage)
	steps := count(kb, tileDepth)
	const some = stripsAtOnce * tileRows
	first, end := g.chunkRows(chunk, i0, i1)
	for i := first; i < end; i += tileRows {
		strip := (i - first) % some / tileRows
		if strip == 0 {
			g.packA(g.a.From(i, k0), min(some, end-i), kb, steps)
		}
		sums := g.sums
		if g.apart {
			sums = g.shared[(i-i0)*g.nc:]
		}
		g.strip(g.ap[strip*g.panel(steps):], g.packedB(stage), sums, i, min(tileRows, i1-i), j0, j1-j0, k0, kb, steps)
	}
}

// halves views n floats as 2n 16-bit numbers.
func halves(f []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(f))), 2*len(f))
}

// words views pairs of floats as 64-bit numbers.
func words(f []float32) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(f))), len(f)/2)
}

// panel is the number of elements of a packed panel of b or strip of a.
func (g *tiled) panel(steps int) int { return g.parts.count() * steps * tileElems }

// strip computes rows [i, i+rows) of a block, up to 32, from their strip of a.
func (g *tiled) strip(ap, bp []uint16, sums []float32, i, rows, j, n, k0, kb, steps int) {
	first, last := k0 == 0, k0+kb == g.k
	panels := count(n, tileRows)
	whole := 0 // panels written straight to c
	if g.c.H == nil && !g.accumulate && rows == tileRows {
		whole = n / tileRows
		tiles(tilesOf{1, whole, steps, 0, g.panel(steps), g.parts}, ap, bp, g.c.From(i, j).F, g.c.LD, first)
	}
	if whole == panels {
		return
	}
	part := sums[whole*tileRows:]
	if !first && !g.apart { // partial sums of a float32 c whose edge no tile fits
		for r := range rows {
			copy(part[r*g.nc:][:n-whole*tileRows], g.c.From(i+r, j+whole*tileRows).F)
		}
	}
	tiles(tilesOf{1, panels - whole, steps, 0, g.panel(steps), g.parts}, ap, bp[whole*g.panel(steps):], part, g.nc, first)
	if last || !g.apart {
		g.finish(i, rows, j+whole*tileRows, n-whole*tileRows, part)
	}
}

// finish writes sums to c.
func (g *tiled) finish(i, rows, j, n int, sums []float32) {
	for r := range rows {
		s := sums[r*g.nc:][:n]
		if g.c.H == nil {
			c := g.c.F[(i+r)*g.c.LD+j:][:n]
			if g.accumulate {
				add(c, c, s)
			} else {
				copy(c, s)
			}
			continue
		}
		c := g.c.H[(i+r)*g.c.LD+j:][:n]
		if g.accumulate {
			var old [64]float32
			for k := 0; k < n; k += len(old) {
				o := old[:min(len(old), n-k)]
				g.c.widen(o, c[k:k+len(o)])
				add(s[k:k+len(o)], o, s[k:k+len(o)])
			}
		}
		g.c.narrow(c, s)
	}
}

// packTilesA copies rows of a, kb columns each, as strips of 32, stride elements apart: per step of 32 columns 32 rows of
// 32 elements. Columns beyond kb are 0; rows beyond rows are undefined.
func packTilesA(dst []uint16, stride int, a Matrix, rows, kb int, tmp []uint16) {
	if a.Trans {
		a.Trans = false // pairs as in b, then transposed
		packTilesB(tmp, stride, a, kb, rows)
		for at := 0; at < rows; at += tileRows / 2 {
			i := at/tileRows*stride + at%tileRows/16*tileElems/2
			transposeTiles(dst[i:], tmp[i:], 32, tileElems, (kb+tileDepth-1)/tileDepth)
		}
		return
	}
	for i := 0; i < rows; i += tileRows {
		to, from, n := dst[i/tileRows*stride:], a.From(i, 0), min(tileRows, rows-i)
		done := copyTiles(to, from.H, a.LD, n, kb/tileDepth) * tileDepth
		for kk := done; kk < roundUp(kb, tileDepth); kk++ {
			for r := range n {
				x := uint16(0)
				if kk < kb {
					x = from.H[r*a.LD+kk]
				}
				to[kk/tileDepth*tileElems+r*tileDepth+kk%tileDepth] = x
			}
		}
	}
}

// packTilesB copies columns of b, kb rows each, as panels of 32, stride elements apart: per step of 32 rows two tiles of 16
// columns, each of 16 row pairs with (k, n) and (k+1, n) adjacent. Rows beyond kb and columns beyond cols are 0.
func packTilesB(dst []uint16, stride int, b Matrix, kb, cols int) {
	done := 0 // of kb
	if !b.Trans {
		// A few rows of all panels at a time, so that the source is read along its rows.
		const some = 16
		for ; done < kb/2*2; done = min(done+some, kb/2*2) {
			for j := 0; j < cols; j += tileRows {
				to := dst[j/tileRows*stride+done/tileDepth*tileElems+done%tileDepth*16:]
				pairTiles(to, b.From(done, j).H, 2*b.LD, b.LD, min(some, kb-done)/2, min(tileRows, cols-j))
			}
		}
	}
	for j := 0; j < cols; j += tileRows {
		to, from, n, done := dst[j/tileRows*stride:], b.From(0, j), min(tileRows, cols-j), done
		if b.Trans && n == tileRows {
			done = kb / tileDepth * tileDepth
			for half := range 2 {
				transposeTiles(to[half*tileElems/2:], from.From(0, 16*half).H, b.LD, tileDepth, kb/tileDepth)
			}
		}
		for k := done; k < roundUp(kb, tileDepth); k++ {
			for c := range tileRows {
				x := uint16(0)
				if k < kb && c < n {
					x = from.From(k, c).H[0]
				}
				to[k/tileDepth*tileElems+c/16*tileElems/2+k%tileDepth/2*32+c%16*2+k%2] = x
			}
		}
	}
}
