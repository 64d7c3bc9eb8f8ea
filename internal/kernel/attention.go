package kernel

import (
	"math"

	"trireme/internal/impl"
)

// AttentionRows are the rows of one head, or of adjacent heads, in a wider matrix: row i starts at
// i*Stride. Exactly one of F32, BF16 and F16 is set.
type AttentionRows struct {
	F32    []float32
	BF16   []uint16
	F16    []uint16
	Stride int
}

// From returns the rows from row i and column c on.
func (r AttentionRows) From(i, c int) AttentionRows {
	switch off := i*r.Stride + c; {
	case r.F32 != nil:
		r.F32 = r.F32[off:]
	case r.BF16 != nil:
		r.BF16 = r.BF16[off:]
	default:
		r.F16 = r.F16[off:]
	}
	return r
}

// widen converts the start of row i, which is not F32.
func (r AttentionRows) widen(dst []float32, i int) {
	if r.BF16 != nil {
		BF16ToF32(dst, r.BF16[i*r.Stride:][:len(dst)])
		return
	}
	F16ToF32(dst, r.F16[i*r.Stride:][:len(dst)])
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
	kt, v   []float32 // all keys transposed in panels, all values
	q, s, o []float32 // a block's queries, scores, and sums
	wide    []float32 // converted rows of BF16 or F16
}

func (a *Attention) forwardScratch(mem []float32) (f attnForward, n int) {
	s := attnScratch{mem: mem}
	keys, e := roundUp(a.T, attnPanel), roundUp(a.E, 16)
	f.kt = s.take(keys * a.E)
	f.v = s.take(keys * e)
	f.q = s.take(attnQueries * e)
	f.s = s.take(attnQueries * a.scoreStride())
	f.o = s.take(attnQueries * e)
	f.wide = s.take(attnQueries * e)
	return f, s.used
}

// scoreStride is an odd number of cache lines, to spread a column of scores over cache sets.
func (a *Attention) scoreStride() int { return min(roundUp(a.T, attnPanel), attnKeys) + 16 }

// ForwardScratch returns the number of scratch floats for Forward.
func (a *Attention) ForwardScratch() int {
	if a.tiled() {
		_, n := a.tiledForwardScratch(nil)
		return n
	}
	_, n := a.forwardScratch(nil)
	return n
}

// Forward computes rows [i0,i1) of the output of each query head of the group, and their
// log-sum-exp: o and q [T Group*E], k and v [T E], lse [Group] rows of T. i0 is a multiple of
// AttentionBlock. Chunks of keys are combined by the online softmax of FlashAttention (Dao et al.
// 2022); within a chunk the softmax is the direct one.
func (a *Attention) Forward(scratch []float32, o AttentionRows, lse []float32, q, k, v AttentionRows, i0, i1 int) {
	ops := attnOps(impl.Current())
	if a.tiled() {
		a.forwardTiles(ops, scratch, o, lse, q, k, v, i0, i1)
		return
	}
	f, _ := a.forwardScratch(scratch)
	first, last := a.Mask.span(i0, i1)
	first = first / attnPanel * attnPanel
	a.packTransposed(ops, f.kt, f.wide, k, first, last)
	for j := first; j < last; j += attnQueries {
		a.pack(ops, f.v[j*roundUp(a.E, 16):], v.From(j, 0), min(attnQueries, last-j), 1)
	}
	for g := range a.Group {
		for i := i0; i < i1; i += attnQueries {
			a.forwardBlock(ops, &f, g, o.From(i, g*a.E), lse[g*a.LSE+i:], q.From(i, g*a.E), i, min(attnQueries, i1-i))
		}
	}
}

// tiled reports whether products use tiles, or pairs in the same layout.
func (a *Attention) tiled() bool { return a.BF16 && (impl.Tiles() || impl.Pairs()) }

// AttentionBlock is the number of queries computed together.
const AttentionBlock = attnQueries

func (a *Attention) forwardBlock(ops attnOps, f *attnForward, g int, o AttentionRows, lse []float32, q AttentionRows, i, rows int) {
	ld, e := a.scoreStride(), roundUp(a.E, 16)
	a.pack(ops, f.q, q, rows, a.Scale*math.Log2E)
	var top, sum, corr [attnQueries]float32
	for r := range top {
		top[r] = float32(math.Inf(-1))
	}
	first, last := a.Mask.span(i, i+rows)
	begun := false
	for c := first / attnKeys * attnKeys; c < last; c += attnKeys {
		var t attnTile
		if !t.trim(&a.Mask, i, rows, c, min(c+attnKeys, roundUp(a.T, 16))) {
			continue
		}
		t.scores(ops, f.s, ld, f.q, e, f.kt[c*a.E:], a.E)
		if a.Mask.Docs != nil {
			a.Mask.hide(f.s, ld, &t, i, c)
		}
		ops.softmax(f.s, ld, rows, t.lo[:], t.hi[:], t.c0, t.c1, top[:], sum[:], corr[:])
		if a.Drop.Below > 0 {
			a.drop(f.s, ld, &t, g, i, c)
		}
		if begun {
			ops.scale(f.o, e, f.o, e, rows, a.E, corr[:], 1)
		}
		t.overKeys(ops, f.o, e, f.s, ld, f.v[c*e:], e, begun)
		begun = true
	}
	if !begun {
		clear(f.o[:rows*e])
	}
	ops.finish(top[:], sum[:], roundUp(rows, 16))
	copy(lse[:rows], top[:])
	if a.Drop.Below > 0 {
		scale(sum[:rows], a.Drop.Scale)
	}
	a.unpack(ops, o, f.o, f.wide, rows, sum[:], 1)
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
