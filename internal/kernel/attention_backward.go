package kernel

import (
	"math"

	"trireme/internal/impl"
)

// attnBackward is the scratch of a backward pass.
type attnBackward struct {
	kt, vt, k []float32 // keys and values of a chunk, transposed in panels, and keys
	dk, dv    []float32 // their gradients
	q, do     []float32 // queries of a block and the gradient of their output
	p, dp     []float32 // probabilities and their gradients
	dq        []float32 // gradient of a block of queries, or of all if there are several chunks
	o, wide   []float32 // converted rows
}

func (a *Attention) backwardScratch(mem []float32) (b attnBackward, n int) {
	s := attnScratch{mem: mem}
	keys, e := min(roundUp(a.T, attnPanel), attnKeys), roundUp(a.E, 16)
	b.kt = s.take(keys * a.E)
	b.vt = s.take(keys * a.E)
	b.k = s.take(keys * e)
	b.dk = s.take(keys * e)
	b.dv = s.take(keys * e)
	b.q = s.take(attnQueries * e)
	b.do = s.take(attnQueries * e)
	b.p = s.take(attnQueries * a.scoreStride())
	b.dp = s.take(attnQueries * a.scoreStride())
	b.o = s.take(attnQueries * e)
	b.wide = s.take(attnQueries * e)
	queries := attnQueries
	if a.T > attnKeys {
		queries = a.Group * roundUp(a.T, attnQueries)
	}
	b.dq = s.take(queries * e)
	return b, s.used
}

// BackwardScratch returns the number of scratch floats for Backward.
func (a *Attention) BackwardScratch() int {
	if a.tiled() {
		_, n := a.tiledBackwardScratch(nil)
		return n
	}
	_, n := a.backwardScratch(nil)
	return n
}

// AttentionPart selects the gradients that a task computes: dq of queries [Q0,Q1), dk and dv of keys [K0,K1). Both ranges are
// full, or one is empty. Bounds other than T are multiples of AttentionBlock.
type AttentionPart struct{ Q0, Q1, K0, K1 int }

func (p AttentionPart) hasQueries() bool { return p.Q0 < p.Q1 }

func (p AttentionPart) hasKeys() bool { return p.K0 < p.K1 }

// reads returns the queries and the keys of t positions that a part reads.
func (p AttentionPart) reads(t int) (q0, q1, k0, k1 int) {
	q0, q1, k0, k1 = p.Q0, p.Q1, p.K0, p.K1
	if !p.hasQueries() {
		q0, q1 = 0, t
	}
	if !p.hasKeys() {
		k0, k1 = 0, t
	}
	return q0, q1, k0, k1
}

// Backward computes the gradients dq [T Group*E], dk and dv [T E] from do, with the shapes of
// Forward. With P the probabilities and D = rowsum(do*o):
//
//	dv = P^T do,  dS = P * (do v^T - D) * Scale,  dq = dS k,  dk = dS^T q
//
// With dropout and its multipliers M, P*M replaces P in dv, and M * do v^T replaces do v^T. Parts have the bits of the
// full gradients, and compute P and dS for themselves: keys and queries apart are 7 products instead of 5.
func (a *Attention) Backward(scratch []float32, part AttentionPart, dq, dk, dv, do, o AttentionRows, lse []float32, q, k, v AttentionRows) {
	ops := attnOps(impl.Current())
	if a.tiled() {
		a.backwardTiles(ops, scratch, part, dq, dk, dv, do, o, lse, q, k, v)
		return
	}
	b, _ := a.backwardScratch(scratch)
	e := roundUp(a.E, 16)
	whole := a.T > attnKeys
	if whole && part.hasQueries() {
		clear(b.dq)
	}
	q0, q1, k0, k1 := part.reads(a.T)
	for c := k0; c < k1; c += attnKeys { // where dq is computed, k0 is 0, and its sums have the same chunks in all parts
		n := min(attnKeys, k1-c)
		a.packTransposed(ops, b.kt, b.wide, k.From(c, 0), 0, n)
		a.packTransposed(ops, b.vt, b.wide, v.From(c, 0), 0, n)
		for j := 0; j < n && part.hasQueries(); j += attnQueries {
			a.pack(ops, b.k[j*e:], k.From(c+j, 0), min(attnQueries, n-j), 1)
		}
		if part.hasKeys() {
			clear(b.dk)
			clear(b.dv)
		}
		for g := range a.Group {
			for i := q0; i < q1; i += attnQueries {
				rows := min(attnQueries, q1-i)
				col := g * a.E
				acc := b.dq
				if whole {
					acc = b.dq[(g*roundUp(a.T, attnQueries)+i)*e:]
				}
				seen := a.backwardBlock(ops, &b, part, g, acc, whole, do.From(i, col), o.From(i, col), lse[g*a.LSE+i:], q.From(i, col), i, rows, c, n)
				if !part.hasQueries() {
					continue
				}
				if !seen && !whole {
					clear(acc[:rows*e])
				}
				if c+n == a.T {
					a.unpack(ops, dq.From(i, col), acc, b.wide, rows, []float32{a.Scale}, 0)
				}
			}
		}
		for j := 0; j < n && part.hasKeys(); j += attnQueries {
			rows := min(attnQueries, n-j)
			// Queries were packed times Scale*log2(e).
			a.unpack(ops, dk.From(c+j, 0), b.dk[j*e:], b.wide, rows, []float32{math.Ln2}, 0)
			a.unpack(ops, dv.From(c+j, 0), b.dv[j*e:], b.wide, rows, []float32{1}, 0)
		}
	}
}

// backwardBlock adds the contributions of queries [i,i+rows) and the n keys from c, if any of them is visible.
func (a *Attention) backwardBlock(ops attnOps, b *attnBackward, part AttentionPart, g int, dq []float32, accumulate bool, do, o AttentionRows, lse []float32, q AttentionRows, i, rows, c, n int) bool {
	var t attnTile
	if !t.trim(&a.Mask, i, rows, c, roundUp(c+n, 16)) {
		return false
	}
	ld, e := a.scoreStride(), roundUp(a.E, 16)
	a.pack(ops, b.q, q, rows, a.Scale*math.Log2E)
	kept := float32(1)
	if a.Drop.Below > 0 {
		kept = a.Drop.Scale
	}
	a.pack(ops, b.do, do, rows, kept) // in dv and in do v^T
	var lse2, d [attnQueries]float32
	for r := range rows {
		lse2[r] = lse[r] * math.Log2E
	}
	if o.F32 != nil {
		ops.dot(d[:], b.do, e, o.F32, o.Stride, rows, a.E)
	} else {
		a.pack(ops, b.o, o, rows, 1)
		ops.dot(d[:], b.do, e, b.o, e, rows, a.E)
	}
	if a.Drop.Below > 0 {
		scale(d[:rows], 1/kept)
	}
	t.scores(ops, b.p, ld, b.q, e, b.kt, a.E)
	if a.Mask.Docs != nil {
		a.Mask.hide(b.p, ld, &t, i, c)
	}
	t.scores(ops, b.dp, ld, b.do, e, b.vt, a.E)
	ops.gradient(b.p, b.dp, ld, rows, t.lo[:], t.hi[:], t.c0, t.c1, lse2[:], d[:])
	if a.Drop.Below > 0 {
		a.dropGradient(b.p, b.dp, ld, &t, d[:], g, i, c)
	}
	if part.hasQueries() {
		t.overKeys(ops, dq, e, b.dp, ld, b.k, e, accumulate)
	}
	if part.hasKeys() {
		t.overQueries(ops, b.dv, e, b.p, ld, b.do, e)
		t.overQueries(ops, b.dk, e, b.dp, ld, b.q, e)
	}
	return true
}
