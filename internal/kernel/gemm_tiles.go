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

// tiled is the state of one product.
type tiled struct {
	c, a, b    Matrix
	parts      Parts
	k          int
	accumulate bool
	steps, nc  int // of a block
	apart      bool

	ap, bp, tmp []uint16
	sums        []float32 // [rows][nc]; a strip if not apart
}

func newTiled(parts Parts, c, a, b Matrix, n, k int, accumulate bool) tiled {
	g := tiled{c: c, a: a, b: b, parts: parts, k: k, accumulate: accumulate}
	steps, cols := parts.limits()
	g.steps, g.nc = even((k+tileDepth-1)/tileDepth, steps, 1), even(n, cols, tileRows)
	g.apart = k > g.steps*tileDepth && (c.H != nil || accumulate)
	return g
}

// sizes returns the lengths of the parts of scratch, in floats, for products of up to m rows and n columns.
func (g *tiled) sizes(m, n int) (ap, bp, tmp, sums int) {
	steps, cols := g.parts.limits()
	steps, cols = min(steps, (g.k+tileDepth-1)/tileDepth), min(cols, roundUp(n, tileRows))
	rows := tileRows
	if g.apart {
		rows = roundUp(min(m, sumRows), tileRows)
	}
	tmp = tileElems / 2 * steps * min(stripsAtOnce, (m+tileRows-1)/tileRows)
	return g.parts.count() * tmp, g.parts.count() * cols * tileDepth / 2 * steps, tmp, rows * cols
}

// scratch returns the number of scratch floats for products of up to m rows and n columns.
func (g *tiled) scratch(m, n int) int {
	ap, bp, tmp, sums := g.sizes(m, n)
	return ap + bp + tmp + sums + 16 // to align to a cache line
}

// halves views n floats as 2n 16-bit numbers.
func halves(f []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(f))), 2*len(f))
}

// words views pairs of floats as 64-bit numbers.
func words(f []float32) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(f))), len(f)/2)
}

// gemmTiles is Gemm for a and b in bfloat16, or in float32 with parts; c may have any type.
func gemmTiles(parts Parts, c, a, b Matrix, m, n, k int, accumulate bool, scratch []float32) {
	g := newTiled(parts, c, a, b, n, k, accumulate)
	if len(scratch) < g.scratch(m, n) {
		panic("kernel: gemm: scratch is smaller than GemmScratch says")
	}
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(scratch)))/4) & 15
	scratch = scratch[skip:]
	ap, bp, tmp, sums := g.sizes(m, n)
	take := func(n int) (part []float32) {
		part, scratch = scratch[:n:n], scratch[n:]
		return part
	}
	g.ap, g.bp, g.tmp, g.sums = halves(take(ap)), halves(take(bp)), halves(take(tmp)), take(sums)
	rows := m
	if g.apart {
		rows = sumRows
	}
	for i := 0; i < m; i += rows {
		for j := 0; j < n; j += g.nc {
			g.block(i, min(i+rows, m), j, min(g.nc, n-j))
		}
	}
}

// block computes rows [i0, i1) of n columns from j on.
func (g *tiled) block(i0, i1, j, n int) {
	depth := g.steps * tileDepth
	for k0 := 0; k0 < g.k; k0 += depth {
		kb := min(depth, g.k-k0)
		steps := (kb + tileDepth - 1) / tileDepth
		g.packB(g.b.From(k0, j), kb, n, steps)
		const some = stripsAtOnce * tileRows
		for i := i0; i < i1; i += tileRows {
			strip := (i - i0) % some / tileRows
			if strip == 0 {
				g.packA(g.a.From(i, k0), min(some, i1-i), kb, steps)
			}
			g.strip(g.ap[strip*g.panel(steps):], i, min(tileRows, i1-i), i-i0, j, n, k0, kb, steps)
		}
	}
}

// panel is the number of elements of a packed panel of b or strip of a.
func (g *tiled) panel(steps int) int { return g.parts.count() * steps * tileElems }

// strip computes rows [i, i+rows) of a block, up to 32, from their strip of a.
func (g *tiled) strip(ap []uint16, i, rows, below, j, n, k0, kb, steps int) {
	first, last := k0 == 0, k0+kb == g.k
	panels := (n + tileRows - 1) / tileRows
	if !g.apart {
		below = 0
	}
	sums := g.sums[below*g.nc:]
	whole := 0 // panels written straight to c
	if g.c.H == nil && !g.accumulate && rows == tileRows {
		whole = n / tileRows
		tiles(tilesOf{1, whole, steps, 0, g.panel(steps), g.parts}, ap, g.bp, g.c.From(i, j).F, g.c.LD, first)
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
	tiles(tilesOf{1, panels - whole, steps, 0, g.panel(steps), g.parts}, ap, g.bp[whole*g.panel(steps):], part, g.nc, first)
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
