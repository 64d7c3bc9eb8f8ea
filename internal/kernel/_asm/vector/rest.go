package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func rest(m *machine) {
	m.function("maximum", "func(x []float32) float32", "is maximumGeneric.")
	x := m.base("x")
	low := m.load(m.bits(0xff800000))
	acc := make([]vec, sums)
	for i := range acc {
		acc[i] = m.load(low)
	}
	m.loop("x", "", sums, func(u int) {
		switch {
		case m.arm != nil && m.masked:
			m.arm.MaxInto(m.a(acc[u]), m.arm.Repeat(m.address(x)))
		case m.arm != nil:
			m.arm.MaxInto(m.a(acc[u]), m.a(m.get(x, u)))
		case !m.masked:
			m.VMAXPS(m.at(x, u), acc[u], acc[u])
		case m.wide:
			m.VMAXPS(m.at(x, u), acc[u], m.k, acc[u])
		default:
			m.VBLENDVPS(m.mask, m.get(x, u), low, low)
			m.VMAXPS(low, acc[u], acc[u])
		}
	})
	v := m.max(m.max(acc[0], acc[1]), m.max(acc[2], acc[3]))
	m.single(m.reduce(v, true))
	m.end()

	m.function("expSum", "func(x []float32, top float32) float64", "is expSumGeneric in F32 lanes.")
	x = m.base("x")
	top := m.scalar("top")
	total := m.accumulators(1)
	m.loop("x", "", 1, func(u int) {
		e := m.exp(m.sub(m.get(x, u), top))
		m.put(e, x, u)
		m.addTo(total[0], m.keep(e))
	})
	m.result(0, total)
	m.end()

	adamw(m)
	blockSquares(m)
}

func adamw(m *machine) {
	m.function("adamw", "func(p, m, v, g []float32, s *[9]float32)", "is adamwGeneric.")
	p, mo, v, g := m.base("p"), m.base("m"), m.base("v"), m.base("g")
	var f [9]vec
	if m.arm != nil {
		s := m.arm.Arg("s")
		for i := range f {
			f[i] = m.arm.Dup(m.arm.Lane(s, 4*i))
		}
	} else {
		s := m.Load(m.Param("s"), m.GP64())
		for i := range f {
			f[i] = m.broadcast(operand.Mem{Base: s, Disp: 4 * i})
		}
	}
	keep, beta1, new1, beta2, new2, rate, root, eps, scale := f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8]
	m.loop("p", "", 1, func(u int) {
		d := m.mul(m.get(g, u), scale)
		mi := m.mul(m.get(mo, u), beta1)
		m.fma(mi, d, new1)
		mi = m.flush(mi)
		m.put(mi, mo, u)
		vi := m.mul(m.get(v, u), beta2)
		m.fma(vi, m.mul(d, d), new2)
		vi = m.flush(vi)
		m.put(vi, v, u)
		r := m.sqrt(vi)
		m.horner(&r, root, eps)
		q := m.div(m.mul(mi, rate), r)
		m.put(m.sub(m.mul(m.get(p, u), keep), q), p, u)
	})
	m.end()
}

// flush replaces subnormal numbers by 0.
func (m *machine) flush(v vec) vec {
	exponent := m.bits(0x7f800000)
	if m.arm != nil {
		return m.arm.And(m.a(v), m.arm.Test(m.a(v), m.a(exponent)))
	}
	d := m.vec()
	if m.wide {
		k := m.K()
		m.VPTESTMD(exponent, v, k)
		m.VMOVAPS_Z(v, k, d)
		return d
	}
	m.VPCMPEQD(m.zero(), m.and(v, exponent), d)
	m.VPANDN(v, d, d)
	return d
}

// blockSquares handles full blocks of 64 only.
func blockSquares(m *machine) {
	m.function("blockSquares", "func(dst []float64, x []float32)", "is blockSquaresGeneric for whole blocks, with its bits.")
	if m.arm != nil {
		m.blockSquaresNEON()
		return
	}
	d, n, x := m.base("dst").(reg.Register), m.length("dst"), m.base("x").(reg.Register)
	m.TESTQ(n, n)
	m.JZ(operand.LabelRef("done"))
	m.Label("block")
	var y reg.VecVirtual
	if m.wide {
		acc := m.zero().(reg.VecVirtual)
		for j := range 8 {
			v := m.ZMM()
			m.VCVTPS2PD(operand.Mem{Base: x, Disp: 32 * j}, v)
			m.VFMADD231PD(v, v, acc)
		}
		h := m.YMM()
		m.VEXTRACTF64X4(operand.U8(1), acc, h)
		y = m.YMM()
		m.VADDPD(h, acc.AsY(), y)
	} else {
		acc := m.accumulators(2)
		for j := range 16 {
			v := m.YMM()
			m.VCVTPS2PD(operand.Mem{Base: x, Disp: 16 * j}, v)
			m.VFMADD231PD(v, v, acc[j%2])
		}
		y = m.YMM()
		m.VADDPD(acc[1], acc[0], y)
	}
	h, t := m.XMM(), m.XMM()
	m.VEXTRACTF128(operand.U8(1), y, h)
	m.VADDPD(h, y.AsX(), t)
	m.VPERMILPD(operand.U8(1), t, h)
	m.VADDSD(h, t, t)
	m.VMOVSD(t, operand.Mem{Base: d})
	m.ADDQ(operand.U32(256), x)
	m.ADDQ(operand.U8(8), d)
	m.DECQ(n)
	m.JNZ(operand.LabelRef("block"))
	m.Label("done")
	m.end()
}

// narrowAhead is the distance in bytes of prefetches in a conversion from bfloat16: operations convert pieces of up to 2 KiB, so that
// the source of the next pieces, of gate and up in SwiGLU or of the next row, is in other pages.
const narrowAhead = 4096

// conversions handle multiples of 16 elements; Go does the rest, with the same bits.
func conversions(m *machine) {
	if m.arm != nil {
		m.conversionsNEON()
		return
	}
	sixteens := func(param string, body func(i reg.Register)) {
		n, i := m.length(param), m.GP64()
		m.ANDQ(operand.I8(-16), n)
		m.XORQ(i, i)
		m.CMPQ(i, n)
		m.JGE(operand.LabelRef("done"))
		m.Label("loop")
		body(i)
		m.ADDQ(operand.U8(16), i)
		m.CMPQ(i, n)
		m.JLT(operand.LabelRef("loop"))
		m.Label("done")
		m.end()
	}
	half := func(base operand.Op, i reg.Register, v int) operand.Mem {
		return operand.Mem{Base: base.(reg.Register), Index: i, Scale: 2, Disp: 2 * m.w * v}
	}
	full := func(base operand.Op, i reg.Register, v int) operand.Mem {
		return operand.Mem{Base: base.(reg.Register), Index: i, Scale: 4, Disp: 4 * m.w * v}
	}
	vectors := 16 / m.w

	m.function("bf16ToF32", "func(dst []float32, src []uint16)", "is bf16ToF32Generic for multiples of 16.")
	d, s := m.base("dst"), m.base("src")
	sixteens("dst", func(i reg.Register) {
		for v := range vectors {
			x := m.vec()
			if m.wide {
				m.PREFETCHT0(half(s, i, v).Offset(narrowAhead))
			}
			m.VPMOVZXWD(half(s, i, v), x)
			m.VPSLLD(operand.U8(16), x, x)
			m.VMOVUPS(x, full(d, i, v))
		}
	})

	m.function("f16ToF32", "func(dst []float32, src []uint16)", "is f16ToF32Generic for multiples of 16.")
	d, s = m.base("dst"), m.base("src")
	sixteens("dst", func(i reg.Register) {
		for v := range vectors {
			x := m.vec()
			m.VCVTPH2PS(half(s, i, v), x)
			m.VMOVUPS(x, full(d, i, v))
		}
	})

	m.function("f32ToF16", "func(dst []uint16, src []float32)", "is f32ToF16Generic for multiples of 16.")
	d, s = m.base("dst"), m.base("src")
	sixteens("dst", func(i reg.Register) {
		for v := range vectors {
			x := m.load(full(s, i, v))
			m.VCVTPS2PH(operand.U8(0), x, half(d, i, v))
		}
	})

	m.function("f32ToBF16", "func(dst []uint16, src []float32)", "is f32ToBF16Generic for multiples of 16.")
	d, s = m.base("dst"), m.base("src")
	sixteens("dst", func(i reg.Register) {
		out := make([]vec, vectors)
		for v := range vectors {
			x := m.load(full(s, i, v))
			top, r := m.vec(), m.vec()
			m.VPSRLD(operand.U8(16), x, top)
			odd := m.and(top, m.bits(1))
			m.VPADDD(x, odd, r)
			m.VPADDD(m.bits(0x7fff), r, r)
			m.VPSRLD(operand.U8(16), r, r)
			if m.wide {
				k := m.K()
				m.VCMPPS(operand.U8(3), x, x, k) // unordered: NaN
				m.VPORD(m.bits(0x40), top, k, r)
			} else {
				nan := m.vec()
				m.VCMPPS(operand.U8(3), x, x, nan)
				m.VPOR(m.bits(0x40), top, top)
				m.VBLENDVPS(nan, top, r, r)
			}
			out[v] = r
		}
		if m.wide {
			m.VPMOVDW(out[0], half(d, i, 0))
			return
		}
		p := m.YMM()
		m.VPACKUSDW(out[1], out[0], p)
		m.VPERMQ(operand.U8(0b11_01_10_00), p, p)
		m.VMOVUPS(p, half(d, i, 0))
	})
}
