package kernel

import "math"

// Attention on bfloat16 operands multiplies by tiles where the processor has them, in the order and
// with the subnormal handling of tiled, or by pairs in the same layout, in the order of tilesGeneric:
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
	k, v     []uint16  // a chunk of keys: strips of 32, steps of columns; its values: strips of columns, steps of 32
	rows     []uint16  // 32 rows as tiles
	s        []float32 // [tiledKeys][64] scores
	p        []uint16  // [2][steps of a chunk] panels of powers
	back     []float32 // [64][columns]
	masks    tiledMasks
	e, chunk int // steps of columns, and of a chunk
}

// take takes the scratch, and returns the floats of a block's queries, in two panels, and of its sums
// [columns][64].
func (f *tiledForward) take(a *Attention, s *attnScratch) (q, o int) {
	e, chunk := stepsOf(a.E), min(stepsOf(a.T), tiledKeys/tileDepth)
	f.e, f.chunk = e, chunk
	f.k = halves(s.take(chunk * e * tileElems / 2))
	f.v = halves(s.take(chunk * e * tileElems / 2))
	f.rows = halves(s.take(e * tileElems / 2))
	f.s = s.take(chunk * tileDepth * attnQueries)
	f.p = halves(s.take(2 * chunk * tileElems / 2))
	f.back = s.take(attnQueries * roundUp(a.E, 16))
	f.masks = takeMasks(s, chunk*tileDepth)
	return 2 * e * tileElems / 2, e * tileDepth * attnQueries
}

// packQueries packs up to 64 rows of columns in two panels.
func (f *tiledForward) packQueries(dst []uint16, q AttentionRows, rows, columns int) {
	for p := range 2 {
		gatherTiles(f.rows, q.rest(p*tileRows, rows), min(tileRows, rows-p*tileRows), columns)
		transposeToB(dst[p*f.e*tileElems:], f.rows, f.e)
	}
}

// packTiles packs keys [first,last) of the chunk from c, and their values; first is a multiple of 32.
func (a *Attention) packTiles(f *tiledForward, k, v AttentionRows, c, first, last int) {
	for j := first; j < last; j += tileRows {
		step, rows := (j-c)/tileRows, min(tileRows, a.T-j)
		gatherTiles(f.k[step*f.e*tileElems:], k.From(j, 0), rows, a.E)
		gatherTiles(f.rows, v.From(j, 0), rows, a.E)
		for e := range f.e {
			transposeTile(f.v[(e*f.chunk+step)*tileElems:], f.rows[e*tileElems:])
		}
	}
}

// addTiles is add by tiles.
func (a *Attention) addTiles(ops attnOps, f *tiledForward, b *attnBlock, c int) {
	j := max(c, b.first/tileDepth*tileDepth)
	n := roundUp(min(c+tiledKeys, b.last)-j, tileDepth)
	if n <= 0 {
		return
	}
	at, steps := (j-c)/tileDepth, n/tileDepth
	tiles(tilesOf{steps, 2, f.e, f.e * tileElems, f.e * tileElems, 0}, f.k[at*f.e*tileElems:], halves(b.q), f.s, attnQueries, true)
	seen, kept := f.masks.set(ops, a, b.g, b.i, b.rows, j, n)
	var corr [attnQueries]float32
	ops.tileSoftmax(f.p, f.chunk*tileElems, f.s, seen, kept, a.Scale*math.Log2E, &b.top, &b.sum, &corr)
	if b.begun {
		ops.scaleColumns(b.o, f.e*tileDepth, &corr)
	}
	tiles(tilesOf{f.e, 2, steps, f.chunk * tileElems, f.chunk * tileElems, 0}, f.v[at*tileElems:], f.p, b.o, attnQueries, !b.begun)
	b.begun = true
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
