package kernel

import "math"

// Attention on bfloat16 operands multiplies by tiles where the processor has them, in the order and
// with the subnormal handling of gemmTiles, or by pairs in the same layout, in the order of tilesGeneric:
//
//   - Scores are products of unscaled queries and keys; the exponential is
//     2^(s*Scale*log2(e)-top) in float32.
//   - Probabilities, and gradients of scores (before Scale), are rounded to bfloat16, to nearest,
//     ties away from zero, where a product reads them. The softmax sum uses the unrounded values.
//   - The forward sum over keys is one product per chunk of tiledKeys keys; the gradients' sums over
//     queries are one per chunk of tiledQueries queries of a head. The gradient of a query is a sum
//     over blocks of tiledBlock keys. Chunks and blocks start at multiples of their size and are
//     added in ascending order. Blocks of queries and of 32 keys may be skipped if nothing in them
//     is visible.
//   - Sums over queries take index 32n+p followed by 32n+p+16, for p in 0, 1, ..., 15.
//
// Scores have keys as rows and a block of 64 queries as columns, so that no operation on them sums
// over the lanes of a vector.
const (
	tiledKeys    = 512
	tiledQueries = 512
	tiledBlock   = attnQueries
)

// 32 rows with their columns in steps of 32 become tile operands: the rows themselves (a with
// k = columns, or b after transposeToB), or columns as rows (a after transposeTile, b after pairTile).

// stepsOf returns the number of steps of n.
func stepsOf(n int) int { return (n + tileDepth - 1) / tileDepth }

// gatherTiles copies up to 32 rows of e columns to full tiles, padded with 0: 32 rows of 32 elements
// per step of columns.
func gatherTiles(dst []uint16, src AttentionRows, rows, e int) {
	whole := e / tileDepth
	if rows < tileRows {
		clear(dst[:stepsOf(e)*tileElems])
	}
	if rows <= 0 {
		return
	}
	copyTiles(dst, src.BF16, src.Stride, rows, whole)
	if rest := e % tileDepth; rest > 0 {
		d := dst[whole*tileElems:][:tileElems]
		clear(d)
		for r := range rows {
			copy(d[r*tileDepth:][:rest], src.BF16[r*src.Stride+whole*tileDepth:])
		}
	}
}

// transposeToB makes b with k = columns from rows.
func transposeToB(dst, src []uint16, steps int) {
	for half := range 2 {
		at := half * tileElems / 2
		transposeTiles(dst[at:], src[at:], tileDepth, tileElems, steps)
	}
}

// pairTile makes b with k = rows, in pairs of rows p and p+16.
func pairTile(dst, src []uint16) {
	pairTiles(dst, src, tileDepth, 16*tileDepth, 16, tileRows)
}

// transposeTile makes a with k = rows.
func transposeTile(dst, src []uint16) {
	var tmp [tileElems]uint16
	pairTiles(tmp[:], src, 2*tileDepth, tileDepth, 16, tileRows)
	for half := range 2 {
		at := half * tileElems / 2
		transposeTiles(dst[at:], tmp[at:], 32, tileElems, 1)
	}
}

// tiledMasks are the masks of 64 queries, one word per key.
type tiledMasks struct{ seen, kept []uint64 }

func takeMasks(s *attnScratch, keys int) (m tiledMasks) {
	m.seen, m.kept = words(s.take(2*keys)), words(s.take(2*keys))
	return m
}

// set fills the masks for rows queries from i, of head g of the group, and n keys from j.
func (m *tiledMasks) set(ops attnOps, a *Attention, g, i, rows, j, n int) (seen, kept []uint64) {
	seen = m.seen[:n]
	a.Mask.seen(seen, i, rows, j)
	if a.Drop.Below == 0 {
		return seen, seen
	}
	var mem [tiledKeys + dropBlock]uint32
	var bits [tiledKeys / 64][attnQueries]uint64
	for r := range rows {
		lo, hi := max(int(a.Mask.Lo[i+r])-j, 0)&^63, min(int(a.Mask.Hi[i+r])-j, n)
		if lo >= hi {
			continue
		}
		first := a.Drop.First + uint64(i+r)*a.Drop.Row + uint64(g)*a.Drop.Head + uint64(j+lo)
		var row [tiledKeys / 64]uint64
		ops.dropMask(row[lo/64:], a.Drop.words(mem[:], first, hi-lo), a.Drop.Below)
		for k := lo / 64; k*64 < hi; k++ {
			bits[k][r] = row[k]
		}
	}
	kept = m.kept[:n]
	for k := range kept {
		if k%64 == 0 {
			transposeBits(&bits[k/64])
		}
		kept[k] = bits[k/64][k%64]
	}
	return seen, kept
}

// seen sets bit r of dst[k] where position i+r sees position j+k; r < rows <= 64.
func (m *AttentionMask) seen(dst []uint64, i, rows, j int) {
	clear(dst)
	n := len(dst)
	for r := range rows {
		lo, hi := max(int(m.Lo[i+r])-j, 0), min(int(m.Hi[i+r])-j, n)
		if lo >= hi {
			continue
		}
		dst[lo] ^= 1 << r
		if hi < n {
			dst[hi] ^= 1 << r
		}
	}
	var now uint64
	for k, x := range dst {
		now ^= x
		dst[k] = now
	}
	if m.Docs == nil {
		return
	}
	for r := range rows {
		lo, hi := max(int(m.Lo[i+r])-j, 0), min(int(m.Hi[i+r])-j, n)
		for k := lo; k < hi; k++ {
			if m.Docs[j+k] != m.Docs[i+r] {
				dst[k] &^= 1 << r
			}
		}
	}
}

// tiledForward is the scratch of a forward pass by tiles.
type tiledForward struct {
	k, v   []uint16  // all keys: strips of 32, steps of columns; all values: strips of columns, steps of 32
	rows   []uint16  // 32 rows as tiles
	q      []uint16  // a block of queries, two panels
	s      []float32 // [tiledKeys][64] scores
	p      []uint16  // [2][steps of a chunk] panels of powers
	o      []float32 // [columns][64] sums
	back   []float32 // [64][columns]
	wide   []float32
	masks  tiledMasks
	ranges [4]int // of packed keys: first and steps; steps of columns; steps of a chunk
}

func (a *Attention) tiledForwardScratch(mem []float32) (f tiledForward, n int) {
	s := attnScratch{mem: mem}
	keys, e := stepsOf(a.T), stepsOf(a.E)
	chunk := min(keys, tiledKeys/tileDepth)
	f.k = halves(s.take(keys * e * tileElems / 2))
	f.v = halves(s.take(keys * e * tileElems / 2))
	f.rows = halves(s.take(e * tileElems / 2))
	f.q = halves(s.take(2 * e * tileElems / 2))
	f.s = s.take(chunk * tileDepth * attnQueries)
	f.p = halves(s.take(2 * chunk * tileElems / 2))
	f.o = s.take(e * tileDepth * attnQueries)
	f.back = s.take(attnQueries * roundUp(a.E, 16))
	f.wide = s.take(attnQueries * roundUp(a.E, 16))
	f.masks = takeMasks(&s, chunk*tileDepth)
	f.ranges = [4]int{0, keys, e, chunk}
	return f, s.used
}

// forwardTiles is Forward by tiles.
func (a *Attention) forwardTiles(ops attnOps, scratch []float32, o AttentionRows, lse []float32, q, k, v AttentionRows, i0, i1 int) {
	f, _ := a.tiledForwardScratch(scratch)
	first, last := a.Mask.span(i0, i1)
	first = first / tileDepth * tileDepth
	f.ranges[0] = first
	keys, e := f.ranges[1], f.ranges[2]
	for j := first; j < last; j += tileRows {
		step, rows := (j-first)/tileRows, min(tileRows, a.T-j)
		gatherTiles(f.k[step*e*tileElems:], k.From(j, 0), rows, a.E)
		gatherTiles(f.rows, v.From(j, 0), rows, a.E)
		for c := range e {
			transposeTile(f.v[(c*keys+step)*tileElems:], f.rows[c*tileElems:])
		}
	}
	for g := range a.Group {
		for i := i0; i < i1; i += attnQueries {
			a.forwardTilesBlock(ops, &f, g, o.From(i, g*a.E), lse[g*a.LSE+i:], q.From(i, g*a.E), i, min(attnQueries, i1-i))
		}
	}
}

func (a *Attention) forwardTilesBlock(ops attnOps, f *tiledForward, g int, o AttentionRows, lse []float32, q AttentionRows, i, rows int) {
	from, keys, e, chunk := f.ranges[0], f.ranges[1], f.ranges[2], f.ranges[3]
	for p := range 2 {
		gatherTiles(f.rows, q.rest(p*tileRows, rows), min(tileRows, rows-p*tileRows), a.E)
		transposeToB(f.q[p*e*tileElems:], f.rows, e)
	}
	var top, sum, corr [attnQueries]float32
	for r := range top {
		top[r] = attnNegInf
	}
	first, last := a.Mask.span(i, i+rows)
	first = first / tileDepth * tileDepth
	begun := false
	for c := first / tiledKeys * tiledKeys; c < last; c += tiledKeys {
		j := max(c, first)
		n := roundUp(min(c+tiledKeys, last)-j, tileDepth)
		if n <= 0 {
			continue
		}
		at, steps := (j-from)/tileDepth, n/tileDepth
		tiles(tilesOf{steps, 2, e, e * tileElems, e * tileElems, oneRun}, f.k[at*e*tileElems:], f.q, f.s, attnQueries, true)
		seen, kept := f.masks.set(ops, a, g, i, rows, j, n)
		ops.tileSoftmax(f.p, chunk*tileElems, f.s, seen, kept, a.Scale*math.Log2E, &top, &sum, &corr)
		if begun {
			ops.scaleColumns(f.o, e*tileDepth, &corr)
		}
		tiles(tilesOf{e, 2, steps, keys * tileElems, chunk * tileElems, oneRun}, f.v[at*tileElems:], f.p, f.o, attnQueries, !begun)
		begun = true
	}
	if !begun {
		clear(f.o)
	}
	ops.finish(top[:], sum[:], attnQueries)
	copy(lse[:rows], top[:])
	if a.Drop.Below > 0 {
		scale(sum[:rows], a.Drop.Scale)
	}
	a.unpackColumns(ops, o, f.o, attnQueries, f.back, f.wide, rows, sum[:], 1)
}

// unpackColumns is unpack for sums stored by column: [columns][ld], ld >= 64.
func (a *Attention) unpackColumns(ops attnOps, dst AttentionRows, src []float32, ld int, back, wide []float32, rows int, f []float32, fstep int) {
	transpose(back, roundUp(a.E, 16), src, ld, a.E, attnQueries)
	a.unpack(ops, dst, back, wide, rows, f, fstep)
}

// rest returns the rows from row i on, of n.
func (r AttentionRows) rest(i, n int) AttentionRows {
	if i >= n {
		return AttentionRows{}
	}
	return r.From(i, 0)
}
