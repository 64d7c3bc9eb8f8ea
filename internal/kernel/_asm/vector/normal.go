package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// doubles emits float64 and 64-bit integer code for eight lanes. Products and sums are rounded one by
// one, to equal the Go code bit for bit.
type doubles struct {
	*machine
	consts map[uint64]operand.Mem
}

func (d *doubles) bits(v uint64) operand.Mem {
	c, ok := d.consts[v]
	if !ok {
		c = d.StaticGlobal("vectorQ" + hex(v))
		d.DataAttributes(attr.RODATA | attr.NOPTR)
		for range 8 {
			d.AppendDatum(operand.U64(v))
		}
		d.consts[v] = c
	}
	return c
}

func hex(v uint64) string {
	const digits = "0123456789abcdef"
	var s [16]byte
	for i := range s {
		s[i] = digits[v>>(60-4*i)&15]
	}
	return string(s[:])
}

func (d *doubles) f(v float64) operand.Mem { return d.bits(math.Float64bits(v)) }

func (d *doubles) op(f func(...operand.Op), b operand.Op, a operand.Op) vec {
	r := d.ZMM()
	f(b, a, r)
	return r
}

func (d *doubles) add(a vec, b operand.Op) vec { return d.op(d.VADDPD, b, a) }
func (d *doubles) sub(a vec, b operand.Op) vec { return d.op(d.VSUBPD, b, a) }
func (d *doubles) mul(a vec, b operand.Op) vec { return d.op(d.VMULPD, b, a) }
func (d *doubles) xor(a vec, b operand.Op) vec { return d.op(d.VPXORQ, b, a) }

func (d *doubles) shift(f func(...operand.Op), n int, a operand.Op) vec {
	r := d.ZMM()
	f(operand.U8(n), a, r)
	return r
}

func (d *doubles) float(a vec) vec {
	r := d.ZMM()
	d.VCVTQQ2PD(a, r)
	return r
}

// poly computes c[0] + z*(c[1] + z*(...)).
func (d *doubles) poly(z vec, c ...float64) vec {
	r := d.load(d.f(c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		r = d.add(d.mul(r, z), d.f(c[i]))
	}
	return r
}

// normals emits Normal for blocks of sixteen, starting with a cosine.
func normals(m *machine) {
	d := &doubles{m, map[uint64]operand.Mem{}}
	steps := m.StaticGlobal("vectorSteps")
	m.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 8 {
		m.AppendDatum(operand.U64(i))
	}
	m.function("normal", "func(dst []float32, seed, stream, k uint64, std float64)",
		"is normalGeneric from element 2k, for multiples of 16, with its bits.")
	dst, n := m.base("dst").(reg.Register), m.length("dst")
	seed, seedHi, stream, streamHi, at := d.word("seed"), m.ZMM(), d.word("stream"), m.ZMM(), d.word("k")
	m.VPSRLQ(operand.U8(32), seed, seedHi)
	m.VPSRLQ(operand.U8(32), stream, streamHi)
	m.VPADDQ(steps, at, at)
	std := m.ZMM()
	addr, err := m.Param("std").Resolve()
	if err != nil {
		panic(err)
	}
	m.VBROADCASTSD(addr.Addr, std)
	m.SUBQ(operand.U8(16), n)
	m.JLT(operand.LabelRef("done"))
	m.Label("loop")
	u, v := d.philox(at, seed, seedHi, stream, streamHi)
	m.VPADDQ(d.bits(8), at, at)
	r := m.ZMM()
	x := d.mul(d.float(d.op(m.VPADDQ, d.bits(1), d.shift(m.VPSRLQ, 11, u))), d.f(0x1p-53))
	m.VSQRTPD(d.mul(d.log(x), d.f(-2)), r)
	sin, cos := d.sincos(v)
	a, b := m.YMM(), m.YMM()
	m.VCVTPD2PS(d.mul(d.mul(r, cos), std), a)
	m.VCVTPD2PS(d.mul(d.mul(r, sin), std), b)
	az, bz := m.ZMM(), m.ZMM()
	m.VPMOVZXDQ(a, az)
	m.VPMOVZXDQ(b, bz)
	m.VPSLLQ(operand.U8(32), bz, bz)
	m.VPORQ(az, bz, bz)
	m.VMOVUPS(bz, operand.Mem{Base: dst})
	m.ADDQ(operand.U8(64), dst)
	m.SUBQ(operand.U8(16), n)
	m.JGE(operand.LabelRef("loop"))
	m.Label("done")
	m.end()
}

// word broadcasts an integer parameter.
func (d *doubles) word(param string) vec {
	r := d.ZMM()
	d.VPBROADCASTQ(d.Load(d.Param(param), d.GP64()), r)
	return r
}

// philox computes two 64-bit words. 32-bit values are in the lower halves of lanes; the upper halves
// are undefined until the end.
func (d *doubles) philox(at, seed, seedHi, stream, streamHi vec) (u, v vec) {
	c0, c1, c2, c3 := at, d.shift(d.VPSRLQ, 32, at), stream, streamHi
	k0, k1 := seed, seedHi
	for round := range 10 {
		p, q := d.op(d.VPMULUDQ, d.bits(0xD2511F53), c0), d.op(d.VPMULUDQ, d.bits(0xCD9E8D57), c2)
		c0, c2 = d.xor(d.xor(d.shift(d.VPSRLQ, 32, q), c1), k0), d.xor(d.xor(d.shift(d.VPSRLQ, 32, p), c3), k1)
		c1, c3 = q, p
		if round < 9 {
			k0, k1 = d.op(d.VPADDQ, d.bits(0x9E3779B9), k0), d.op(d.VPADDQ, d.bits(0xBB67AE85), k1)
		}
	}
	join := func(lo, hi vec) vec {
		return d.op(d.VPORQ, d.op(d.VPANDQ, d.bits(math.MaxUint32), lo), d.shift(d.VPSLLQ, 32, hi))
	}
	return join(c0, c1), join(c2, c3)
}

// log emits logUnit.
func (d *doubles) log(x vec) vec {
	u := d.op(d.VPADDQ, d.bits(0x3ff0000000000000-0x3fe6a09e667f3bcd), x)
	k := d.float(d.op(d.VPADDQ, d.bits(^uint64(1023)+1), d.shift(d.VPSRLQ, 52, u)))
	f := d.sub(d.op(d.VPADDQ, d.bits(0x3fe6a09e667f3bcd), d.op(d.VPANDQ, d.bits(1<<52-1), u)), d.f(1))
	s := d.op(d.VDIVPD, d.add(f, d.f(2)), f)
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
	quarter := d.shift(d.VPSRLQ, 62, d.op(d.VPADDQ, d.bits(1<<61), v))
	turned := d.op(d.VPSUBQ, d.shift(d.VPSLLQ, 62, quarter), v)
	t := d.mul(d.float(d.shift(d.VPSRAQ, 9, turned)), d.f(math.Pi*2*0x1p-55))
	z := d.mul(t, t)
	ps := d.poly(z, -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)
	pc := d.poly(z, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)
	sin = d.add(t, d.mul(d.mul(t, z), ps))
	cos = d.add(d.sub(d.load(d.f(1)), d.mul(z, d.f(0.5))), d.mul(d.mul(z, z), pc))
	odd := d.op(d.VPSUBQ, d.op(d.VPANDQ, d.bits(1), quarter), d.zero())
	swap := d.op(d.VPANDQ, odd, d.xor(sin, cos))
	high := d.shift(d.VPSRLQ, 1, quarter)
	sin = d.xor(sin, d.xor(swap, d.shift(d.VPSLLQ, 63, high)))
	cos = d.xor(cos, d.xor(swap, d.shift(d.VPSLLQ, 63, d.xor(high, quarter))))
	return sin, cos
}
