package kernel

import (
	"math"

	"trireme/internal/impl"
)

// DecodeKeys is the number of keys per part of AttentionDecode.
const DecodeKeys = 128

// AttentionDecode is the attention of one position with Heads query heads over P keys and values in
// KVHeads heads. Keys are split into parts of DecodeKeys at fixed offsets, and parts are combined in
// order, so the result does not depend on threads. A part reads all heads of its rows, which are
// adjacent in a cache.
type AttentionDecode struct {
	Heads, KVHeads, E int
	Scale             float32
}

// decodePart is the scratch of a part.
type decodePart struct {
	q, s, o, wide  []float32
	top, sum, corr []float32
}

const decodeStride = DecodeKeys + 16

func (d *AttentionDecode) scratch(mem []float32) (p decodePart, n int) {
	s := attnScratch{mem: mem}
	e, group := roundUp(d.E, 16), d.Heads/d.KVHeads
	heads := roundUp(d.Heads, 4)
	p.q = s.take(d.Heads * e)
	p.s = s.take((d.Heads + roundUp(group, attnRowGroup)) * decodeStride) // the rows of the last group are read as a full tile
	p.o = s.take(roundUp(group, attnRowGroup) * e)
	p.wide = s.take(DecodeKeys * e)
	p.top, p.sum, p.corr = s.take(heads), s.take(heads), s.take(heads)
	return p, s.used
}

// Scratch returns the number of scratch floats for Part.
func (d *AttentionDecode) Scratch() int {
	_, n := d.scratch(nil)
	return n
}

// PartLength returns the length of a part's result: per head the sums over values, the maximum
// score and the sum of exponentials.
func (d *AttentionDecode) PartLength() int { return d.Heads * d.partStride() }

func (d *AttentionDecode) partStride() int { return roundUp(d.E+2, 16) }

// Part computes n <= DecodeKeys keys: q [1 Heads*E], k and v [n KVHeads*E].
func (d *AttentionDecode) Part(scratch, part []float32, q, k, v AttentionRows, n int) {
	ops := attnOps(impl.Current())
	mem, _ := d.scratch(scratch)
	one := Attention{E: d.E}
	e, group := roundUp(d.E, 16), d.Heads/d.KVHeads
	for h := range d.Heads {
		one.pack(ops, mem.q[h*e:], q.From(0, h*d.E), 1, d.Scale*math.Log2E)
	}
	for kv := range d.KVHeads {
		rows, ld := d.rows(ops, mem.wide, k.From(0, kv*d.E), n, false)
		for j := 0; j < n; j += attnPanel { // a few keys stay in cache for all heads of the group
			for h := kv * group; h < (kv+1)*group; h++ {
				ops.dot(mem.s[h*decodeStride+j:], rows[j*ld:], ld, mem.q[h*e:], 0, min(attnPanel, n-j), d.E)
			}
		}
	}
	clear(mem.s[d.Heads*decodeStride:])
	for h := 0; h < d.Heads; h += attnQueries {
		heads := min(attnQueries, d.Heads-h)
		var lo, hi [attnQueries]int32
		for i := range heads {
			hi[i] = int32(n)
			mem.top[h+i], mem.sum[h+i] = attnNegInf, 0
		}
		ops.softmax(mem.s[h*decodeStride:], decodeStride, heads, lo[:], hi[:], 0, roundUp(n, 16), mem.top[h:], mem.sum[h:], mem.corr[h:])
	}
	for kv := range d.KVHeads {
		rows, ld := d.rows(ops, mem.wide, v.From(0, kv*d.E), n, true)
		ops.product(mem.o, e, mem.s[kv*group*decodeStride:], decodeStride, 1, rows, ld, attnPanel, roundUp(group, attnRowGroup), e, n, false)
		for g := range group {
			h := kv*group + g
			out := part[h*d.partStride():][:d.partStride()]
			copy(out[:d.E], mem.o[g*e:])
			out[d.E], out[d.E+1] = mem.top[h], mem.sum[h]
		}
	}
}

// rows returns n rows of a head as F32: in place, or copied to mem if they are not F32 or, with
// whole, not padded to full vectors.
func (d *AttentionDecode) rows(ops attnOps, mem []float32, src AttentionRows, n int, whole bool) (rows []float32, ld int) {
	e := roundUp(d.E, 16)
	if src.F32 != nil && (!whole || e == d.E) {
		return src.F32, src.Stride
	}
	one := Attention{E: d.E}
	one.pack(ops, mem, src, n, 1)
	return mem, e
}

// Join combines the parts of head h in out [E], which is 0 without parts.
func (d *AttentionDecode) Join(out []float32, parts []float32, h int) {
	top, length, at := attnNegInf, d.PartLength(), h*d.partStride()
	for p := at; p < len(parts); p += length {
		top = max(top, parts[p+d.E])
	}
	var sum float32
	clear(out)
	if top == attnNegInf {
		return
	}
	for p := at; p < len(parts); p += length {
		w := exp2(parts[p+d.E] - top)
		sum += w * parts[p+d.E+1]
		AddScaled(out, out, parts[p:][:d.E], w)
	}
	scale(out, 1/sum)
}
