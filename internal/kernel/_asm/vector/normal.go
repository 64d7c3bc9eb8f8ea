package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
)

// normals emits Normal for blocks of two vectors of float64, starting with a cosine.
func normals(m *machine) {
	d := &doubles{m, map[uint64]operand.Mem{}}
	var steps operand.Mem
	if m.arm == nil {
		name := "vectorSteps"
		if !m.wide {
			name += m.suffix
		}
		steps = m.StaticGlobal(name)
		m.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range d.lanes() {
			m.AppendDatum(operand.U64(i))
		}
	}
	m.function("normal", "func(dst []float32, seed, stream, k uint64, std float64)",
		fmt.Sprintf("is normalGeneric from element 2k, for multiples of %d, with its bits.", m.w))
	if m.arm != nil {
		d.normalsNEON()
		return
	}
	dst, n := m.base("dst"), m.length("dst")
	var seed, seedHi, stream, streamHi, std vec
	load := func() { // AVX2 has no registers to keep these in
		seed, stream = d.word("seed"), d.word("stream")
		seedHi, streamHi = d.right(seed, 32), d.right(stream, 32)
	}
	loadStd := func() {
		v := m.vec()
		m.VBROADCASTSD(d.parameter("std"), v)
		std = v
	}
	if m.wide {
		load()
		loadStd()
	}
	at := d.word("k")
	m.VPADDQ(steps, at, at)
	m.SUBQ(operand.U8(m.w), n)
	m.JLT(operand.LabelRef("done"))
	m.Label("loop")
	if !m.wide {
		load()
	}
	u, v := d.philox(at, seed, seedHi, stream, streamHi)
	m.VPADDQ(d.bits(uint64(d.lanes())), at, at)
	a, b := d.normal(u, v)
	if !m.wide {
		loadStd()
	}
	d.store(d.mul(a, std), d.mul(b, std), dst)
	m.ADDQ(operand.U8(4*m.w), dst)
	m.SUBQ(operand.U8(m.w), n)
	m.JGE(operand.LabelRef("loop"))
	m.Label("done")
	m.end()
}

// normalsNEON counts k in two lanes.
func (d *doubles) normalsNEON() {
	b := d.arm
	dst, k, at := b.Arg("dst.base"), b.Arg("k"), b.V()
	b.Op("VMOV R%d, V%d.D[0]", k, at)
	b.Op("ADD $1, R%d", k)
	b.Op("VMOV R%d, V%d.D[1]", k, at)
	seed, stream, std := d.word("seed"), d.word("stream"), d.word("std")
	seedHi, streamHi := d.right(seed, 32), d.right(stream, 32)
	d.counted("dst", d.w, func() {
		x, y := d.normal(d.philox(at, seed, seedHi, stream, streamHi))
		d.store(d.mul(x, std), d.mul(y, std), dst)
		b.Set(at, d.a(d.plus(at, d.bits(2))))
		forward(b, dst, 16)
	})
	d.end()
}

// normal emits normalPair.
func (d *doubles) normal(u, v vec) (a, b vec) {
	x := d.mul(d.float(d.plus(d.right(u, 11), d.bits(1))), d.f(0x1p-53))
	r := d.sqrt(d.mul(d.log(x), d.f(-2)))
	sin, cos := d.sincos(v)
	return d.mul(r, cos), d.mul(r, sin)
}

// philox computes two 64-bit words. 32-bit values are in the lower halves of lanes; the upper halves
// are undefined until the end.
func (d *doubles) philox(at, seed, seedHi, stream, streamHi vec) (u, v vec) {
	c0, c1, c2, c3 := at, d.right(at, 32), stream, streamHi
	k0, k1 := seed, seedHi
	for round := range 10 {
		p, q := d.product(c0, d.bits(0xD2511F53)), d.product(c2, d.bits(0xCD9E8D57))
		c0, c2 = d.xor(d.xor(d.right(q, 32), c1), k0), d.xor(d.xor(d.right(p, 32), c3), k1)
		c1, c3 = q, p
		if round < 9 {
			k0, k1 = d.plus(k0, d.bits(0x9E3779B9)), d.plus(k1, d.bits(0xBB67AE85))
		}
	}
	join := func(lo, hi vec) vec { return d.or(d.and(lo, d.bits(math.MaxUint32)), d.left(hi, 32)) }
	return join(c0, c1), join(c2, c3)
}

// log emits logUnit.
func (d *doubles) log(x vec) vec {
	u := d.plus(x, d.bits(0x3ff0000000000000-0x3fe6a09e667f3bcd))
	k := d.signed(d.plus(d.right(u, 52), d.bits(^uint64(1023)+1)), 0)
	f := d.sub(d.plus(d.and(u, d.bits(1<<52-1)), d.bits(0x3fe6a09e667f3bcd)), d.f(1))
	s := d.div(f, d.add(f, d.f(2)))
	z := d.mul(s, s)
	w := d.mul(z, z)
	t1 := d.mul(w, d.poly(w, 3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01))
	t2 := d.mul(z, d.poly(w, 6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01, 1.479819860511658591e-01))
	r := d.add(t1, t2)
	half := d.mul(d.mul(f, f), d.f(0.5))
	low := d.add(d.mul(s, d.add(half, r)), d.mul(k, d.f(1.90821492927058770002e-10)))
	return d.sub(d.mul(k, d.f(6.93147180369123816490e-01)), d.sub(d.sub(half, low), f))
}

// sincos emits sincosTurn.
func (d *doubles) sincos(v vec) (sin, cos vec) {
	quarter := d.right(d.plus(v, d.bits(1<<61)), 62)
	turned := d.minus(v, d.left(quarter, 62))
	t := d.mul(d.signed(turned, 9), d.f(math.Pi*2*0x1p-55))
	z := d.mul(t, t)
	ps := d.poly(z, -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)
	pc := d.poly(z, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)
	sin = d.add(t, d.mul(d.mul(t, z), ps))
	cos = d.add(d.sub(d.load(d.f(1)), d.mul(z, d.f(0.5))), d.mul(d.mul(z, z), pc))
	odd := d.minus(d.zero(), d.and(quarter, d.bits(1)))
	swap := d.and(odd, d.xor(sin, cos))
	high := d.right(quarter, 1)
	sin = d.xor(sin, d.xor(swap, d.left(high, 63)))
	cos = d.xor(cos, d.xor(swap, d.left(d.xor(high, quarter), 63)))
	return sin, cos
}
