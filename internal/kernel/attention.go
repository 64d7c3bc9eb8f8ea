package kernel

import (
	"math"

	"trireme/internal/impl"
)

// AttentionRows are the rows of one head, or of adjacent heads, in a wider matrix: row i starts at
// i*Stride. Exactly one of F32, BF16, F16 and I8 is set.
type AttentionRows struct {
	F32    []float32
	BF16   []uint16
	F16    []uint16
	I8     []uint8   // two's complement, for AttentionDecode only
	Scales []float32 // of I8: one for each E columns, rows ScaleStride apart
	Stride int

	E, ScaleStride int
}

// From returns the rows from row i and column c on.
func (r AttentionRows) From(i, c int) AttentionRows {
	switch off := i*r.Stride + c; {
	case r.F32 != nil:
		r.F32 = r.F32[off:]
	case r.BF16 != nil:
		r.BF16 = r.BF16[off:]
	case r.I8 != nil:
		r.I8, r.Scales = r.I8[off:], r.Scales[i*r.ScaleStride+c/r.E:]
	default:
		r.F16 = r.F16[off:]
	}
	return r
}

// widen converts the start of row i, which is not F32.
func (r AttentionRows) widen(dst []float32, i int) {
	switch {
	case r.BF16 != nil:
		BF16ToF32(dst, r.BF16[i*r.Stride:][:len(dst)])
	case r.I8 != nil:
		row, scale := r.I8[i*r.Stride:], r.Scales[i*r.ScaleStride:][:1]
		for lo := 0; lo < len(dst); lo += quantBlock {
			Dequantize(dst[lo:min(lo+quantBlock, len(dst))], row[lo:], scale)
		}
	default:
		F16ToF32(dst, r.F16[i*r.Stride:][:len(dst)])
	}
}

// narrow rounds src to the start of row i, which is not F32.
func (r AttentionRows) narrow(i int, src []float32) {
	if r.BF16 != nil {
		F32ToBF16(r.BF16[i*r.Stride:][:len(src)], src)
		return
	}
	F32ToF16(r.F16[i*r.Stride:][:len(src)], src)
}

// Attention is the attention of one key-value head and its Group query heads over one sequence of T
// positions. Only the scores of a block of queries against a chunk of keys are materialized. Rows of
// lse (log-sum-exp) of adjacent heads are LSE floats apart.
//
// Blocks and chunks start at multiples of their size, and sums over keys, queries and heads run in
// ascending order, so the result depends neither on threads nor on the position in the batch. Levels
// of internal/impl agree up to rounding; BF16 operands in tiles and pairs round differently
// (attention_tiles.go).
type Attention struct {
	T, E, Group int
	LSE         int
	Scale       float32
	Mask        AttentionMask
	Drop        AttentionDropout
	BF16        bool // all operands are BF16, except o, which may have any type
}

// AttentionDropout drops probabilities. Query i, head g of the group and key j use random element
// First + i*Row + g*Head + j. If Below is 0, nothing is dropped.
type AttentionDropout struct {
	Dropout
	First, Row, Head uint64
}

const (
	attnQueries = 64  // queries of a block
	attnKeys    = 512 // maximum keys of a chunk
	attnPanel   = 32  // columns of a panel of a packed operand
	// Blocks of queries, of any head of the group, that pass over a chunk of keys together. The chunk
	// is packed once for them and stays in cache, so memory and speed do not depend on T.
	attnTogether = 32
)

// attnScratch splits scratch into parts, a cache line apart, so that equal offsets in two parts do
// not map to the same cache set.
type attnScratch struct {
	mem  []float32
	used int
}

func (s *attnScratch) take(n int) []float32 {
	n = (n+15)&^15 + 16
	lo := s.used
	s.used += n
	if s.mem == nil { // only measuring
		return nil
	}
	return s.mem[lo:s.used:s.used]
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// attnForward is the scratch of a forward pass.
type attnForward struct {
	kt, v  []float32 // a chunk of keys transposed in panels, and its values
	s      []float32 // scores of a block
	wide   []float32 // converted rows of BF16 or F16
	tiled  bool
	tiles  tiledForward
	blocks [attnTogether]attnBlock
}

// attnBlock is a block of queries of head g of the group, and its state between chunks of keys.
type attnBlock struct {
	g, i, rows  int
	first, last int       // keys that some query sees
	q, o        []float32 // packed queries, and sums over values
	top, sum    [attnQueries]float32
	begun       bool // o has sums
}

func (a *Attention) forwardScratch(mem []float32, tiled bool) (f attnForward, n int) {
	s := attnScratch{mem: mem}
	f.tiled = tiled
	keys, e := min(roundUp(a.T, attnPanel), attnKeys), roundUp(a.E, 16)
	q, o := attnQueries*e, attnQueries*e
	if tiled {
		q, o = f.tiles.take(a, &s)
	} else {
		f.kt = s.take(keys * a.E)
		f.v = s.take(keys * e)
		f.s = s.take(attnQueries * a.scoreStride())
	}
	f.wide = s.take(attnQueries * e)
	for i := range min(attnTogether, a.Group*blocksOf(a.T)) {
		f.blocks[i].q, f.blocks[i].o = s.take(q), s.take(o)
	}
	return f, s.used
}

// blocksOf returns the number of blocks of n queries.
func blocksOf(n int) int { return (n + attnQueries - 1) / attnQueries }

// scoreStride is an odd number of cache lines, to spread a column of scores over cache sets.
func (a *Attention) scoreStride() int { return min(roundUp(a.T, attnPanel), attnKeys) + 16 }

// ForwardScratch returns the number of scratch floats for Forward.
func (a *Attention) ForwardScratch() int {
	_, n := a.forwardScratch(nil, a.tiled())
	return n
}

// tiled reports whether products use tiles, or pairs in the same layout.
func (a *Attention) tiled() bool { return a.BF16 && (impl.Tiles() || impl.Pairs()) }

// AttentionBlock is the number of queries computed together.
const AttentionBlock = attnQueries

// Forward computes rows [i0,i1) of the output of each query head of the group, and their
// log-sum-exp: o and q [T Group*E], k and v [T E], lse [Group] rows of T. i0 is a multiple of
// AttentionBlock. Chunks of keys are combined by the online softmax of FlashAttention (Dao et al.
// 2022); within a chunk the softmax is the direct one.
func (a *Attention) Forward(scratch []float32, o AttentionRows, lse []float32, q, k, v AttentionRows, i0, i1 int) {
	a.forward(a.tiled(), scratch, o, lse, q, k, v, i0, i1)
}

func (a *Attention) forward(tiled bool, scratch []float32, o AttentionRows, lse []float32, q, k, v AttentionRows, i0, i1 int) {
	ops := attnOps(impl.Current())
	f, _ := a.forwardScratch(scratch, tiled)
	n := a.Group * blocksOf(i1-i0)
	for p := 0; p < n; p += attnTogether {
		blocks := f.blocks[:min(attnTogether, n-p)]
		for x := range blocks {
			b := &blocks[x]
			b.g, b.i = (p+x)%a.Group, i0+(p+x)/a.Group*attnQueries
			b.rows = min(attnQueries, i1-b.i)
			a.start(ops, &f, b, q.From(b.i, b.g*a.E))
		}
		first, last := a.Mask.span(blocks[0].i, blocks[len(blocks)-1].i+blocks[len(blocks)-1].rows)
		first = first / attnPanel * attnPanel
		for c := first / attnKeys * attnKeys; c < last; c += attnKeys {
			lo, hi := max(c, first), min(c+attnKeys, last)
			if f.tiled {
				a.packTiles(&f.tiles, k, v, c, lo, hi)
			} else {
				a.packTransposed(ops, f.kt, f.wide, k.From(c, 0), lo-c, hi-c)
				for j := lo; j < hi; j += attnQueries {
					a.pack(ops, f.v[(j-c)*roundUp(a.E, 16):], v.From(j, 0), min(attnQueries, hi-j), 1)
				}
			}
			for x := range blocks {
				if f.tiled {
					a.addTiles(ops, &f.tiles, &blocks[x], c)
				} else {
					a.add(ops, &f, &blocks[x], c)
				}
			}
		}
		for x := range blocks {
			b := &blocks[x]
			a.finish(ops, &f, b, o.From(b.i, b.g*a.E), lse[b.g*a.LSE+b.i:])
		}
	}
}

// start packs a block's queries.
func (a *Attention) start(ops attnOps, f *attnForward, b *attnBlock, q AttentionRows) {
	if f.tiled {
		f.tiles.packQueries(halves(b.q), q, b.rows, a.E)
	} else {
		a.pack(ops, b.q, q, b.rows, a.Scale*math.Log2E)
	}
	for r := range b.top {
		b.top[r], b.sum[r] = attnNegInf, 0
	}
	b.first, b.last = a.Mask.span(b.i, b.i+b.rows)
	b.begun = false
}

// add adds what a block sees of the chunk of keys from c.
func (a *Attention) add(ops attnOps, f *attnForward, b *attnBlock, c int) {
	var t attnTile
	if b.last <= c || b.first >= c+attnKeys || !t.trim(&a.Mask, b.i, b.rows, c, min(c+attnKeys, roundUp(a.T, 16))) {
		return
	}
	ld, e := a.scoreStride(), roundUp(a.E, 16)
	t.scores(ops, f.s, ld, b.q, e, f.kt, a.E)
	if a.Mask.Docs != nil {
		a.Mask.hide(f.s, ld, &t, b.i, c)
	}
	var corr [attnQueries]float32
	ops.softmax(f.s, ld, b.rows, t.lo[:], t.hi[:], t.c0, t.c1, b.top[:], b.sum[:], corr[:])
	if a.Drop.Below > 0 {
		a.drop(f.s, ld, &t, b.g, b.i, c)
	}
	if b.begun {
		ops.scale(b.o, e, b.o, e, b.rows, a.E, corr[:], 1)
	}
	t.overKeys(ops, b.o, e, f.s, ld, f.v, e, b.begun)
	b.begun = true
}

// finish writes a block's results.
func (a *Attention) finish(ops attnOps, f *attnForward, b *attnBlock, o AttentionRows, lse []float32) {
	if !b.begun {
		clear(b.o)
	}
	ops.finish(b.top[:], b.sum[:], roundUp(b.rows, 16))
	copy(lse[:b.rows], b.top[:])
	if a.Drop.Below > 0 {
		scale(b.sum[:b.rows], a.Drop.Scale)
	}
	if f.tiled {
		a.unpackColumns(ops, o, b.o, attnQueries, f.tiles.back, f.wide, b.rows, b.sum[:], 1)
	} else {
		a.unpack(ops, o, b.o, f.wide, b.rows, b.sum[:], 1)
	}
}

// pack copies rows, times f, to rows padded to full vectors.
func (a *Attention) pack(ops attnOps, dst []float32, src AttentionRows, rows int, f float32) {
	e := roundUp(a.E, 16)
	if src.F32 != nil {
		ops.scale(dst, e, src.F32, src.Stride, rows, a.E, []float32{f}, 0)
		return
	}
	for i := range rows {
		src.widen(dst[i*e:][:a.E], i)
	}
	if f != 1 {
		ops.scale(dst, e, dst, e, rows, a.E, []float32{f}, 0)
	}
}

// packTransposed packs rows [first,last) of src in panels; first is a multiple of the panel.
func (a *Attention) packTransposed(ops attnOps, dst, wide []float32, src AttentionRows, first, last int) {
	if src.F32 != nil && last > first {
		ops.transpose(dst[first*a.E:], src.F32[first*src.Stride:], src.Stride, last-first, a.E)
		return
	}
	for j := first; j < last; j += attnQueries {
		n := min(attnQueries, last-j)
		a.pack(ops, wide, src.From(j, 0), n, 1)
		ops.transpose(dst[j*a.E:], wide, roundUp(a.E, 16), n, a.E)
	}
}

// unpack writes rows padded to full vectors, times f[row*fstep], to dst.
func (a *Attention) unpack(ops attnOps, dst AttentionRows, src, wide []float32, rows int, f []float32, fstep int) {
	e := roundUp(a.E, 16)
	if dst.F32 != nil {
		ops.scale(dst.F32, dst.Stride, src, e, rows, a.E, f, fstep)
		return
	}
	ops.scale(wide, e, src, e, rows, a.E, f, fstep)
	for i := range rows {
		dst.narrow(i, wide[i*e:][:a.E])
	}
}
