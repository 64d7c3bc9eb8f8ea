package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func dropouts(m *machine) {
	randomWords(m)

	m.function("dropSelect", "func(dst, x []float32, words []uint32, below uint32, scale float32)", "is dropSelectGeneric.")
	d, x, w := m.base("dst"), m.base("x"), m.base("words")
	below, scale := m.scalar("below"), m.scalar("scale")
	m.loop("dst", "", 2, func(u int) {
		keep := m.kept(m.get(w, u), below)
		m.put(keep(m.mul(m.get(x, u), scale), nil), d, u)
	})
	m.end()

	m.function("dropGradient", "func(p, dp []float32, words []uint32, below uint32, d float32)", "is dropGradientGeneric.")
	d, x, w = m.base("p"), m.base("dp"), m.base("words")
	below = m.scalar("below")
	minus := m.neg(m.scalar("d"))
	m.loop("p", "", 1, func(u int) {
		keep := m.kept(m.get(w, u), below)
		p := m.get(d, u)
		other := m.mul(p, minus)
		m.put(keep(p, nil), d, u)
		m.put(keep(m.get(x, u), &other), x, u)
	})
	m.end()
}

// kept compares words with below and returns a function that selects v in lanes with word >= below,
// else other, or 0.
func (m *machine) kept(words, below vec) func(v vec, other *vec) vec {
	if m.arm != nil {
		k := m.arm.NotBelow(m.a(words), m.a(below))
		return func(v vec, other *vec) vec {
			if other == nil {
				return m.arm.And(m.a(v), k)
			}
			d := m.arm.Copy(k)
			m.arm.Select(d, m.a(v), m.a(*other))
			return d
		}
	}
	if m.wide {
		k := m.K()
		const notLess = 5
		m.VPCMPUD(operand.U8(notLess), below, words, k)
		return func(v vec, other *vec) vec {
			d := m.vec()
			if other == nil {
				m.VMOVAPS_Z(v, k, d)
			} else {
				m.VBLENDMPS(v, *other, k, d)
			}
			return d
		}
	}
	k := m.binary(m.VPMAXUD, below, words).(reg.VecVirtual)
	m.VPCMPEQD(words, k, k)
	return func(v vec, other *vec) vec {
		if other == nil {
			return m.and(v, k)
		}
		d := m.vec()
		m.VBLENDVPS(k, v, *other, d)
		return d
	}
}

// randomWords runs Philox on one counter per lane. Each group of four lanes is transposed at the end;
// lane 4g+j has counter groups*j+g, so that the words come out in order.
func randomWords(m *machine) {
	if m.arm != nil {
		m.randomWordsNEON()
		return
	}
	steps := m.StaticGlobal("vectorCounters" + m.suffix)
	m.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range m.w {
		m.AppendDatum(operand.U32(m.w/4*(i%4) + i/4))
	}
	m.function("randomWords", "func(dst []uint32, c *[6]uint32)",
		"is randomWordsGeneric from counter c[0] + c[1]<<32 on, stream c[2] + c[3]<<32, seed c[4] + c[5]<<32. c[0] does not overflow.")
	dst, n := m.base("dst"), m.length("dst")
	c := m.Load(m.Param("c"), m.GP64())
	word := func(i int) vec { return m.broadcast(operand.Mem{Base: c, Disp: 4 * i}) }
	odd := m.K()
	if m.wide {
		k := m.GP32()
		m.MOVL(operand.U32(0xaaaa), k)
		m.KMOVW(k, odd)
	}
	// d = even lanes of a, odd lanes of b
	blend := func(d, a, b vec) {
		if m.wide {
			m.VPBLENDMD(b, a, odd, d)
		} else {
			m.VPBLENDD(operand.U8(0xaa), b, a, d)
		}
	}
	// a = the lower words of the products, hi = the upper ones. avo runs out of registers unless they
	// are allocated here.
	t := m.vec()
	multiply := func(a, hi vec, by uint32) {
		f := m.bits(by)
		m.VMOVSHDUP(a, t)
		m.VPMULUDQ(f, t, t)
		m.VPMULUDQ(f, a, a)
		m.VMOVSHDUP(a, hi)
		blend(hi, hi, t)
		m.VMOVSLDUP(t, t)
		blend(a, a, t)
	}
	xor3 := func(d, a, b vec) {
		if m.wide {
			m.VPTERNLOGD(operand.U8(0x96), b, a, d)
			return
		}
		m.VPXOR(a, d, d)
		m.VPXOR(b, d, d)
	}
	at := word(0)
	m.VPADDD(steps, at, at)
	m.SUBQ(operand.U8(4*m.w), n)
	m.JLT(operand.LabelRef("done"))
	m.Label("loop")
	var c0, c1, c2, c3, k0, k1, p, q vec = m.load(at), word(1), word(2), word(3), word(4), word(5), m.vec(), m.vec()
	for round := range 10 {
		multiply(c0, p, 0xD2511F53)
		multiply(c2, q, 0xCD9E8D57)
		xor3(q, c1, k0)
		xor3(p, c3, k1)
		c0, c1, c2, c3, p, q = q, c2, p, c0, c1, c3
		if round < 9 {
			m.VPADDD(m.bits(0x9E3779B9), k0, k0)
			m.VPADDD(m.bits(0xBB67AE85), k1, k1)
		}
	}
	a, b := m.binary(m.VPUNPCKLDQ, c1, c0), m.binary(m.VPUNPCKHDQ, c1, c0)
	e, f := m.binary(m.VPUNPCKLDQ, c3, c2), m.binary(m.VPUNPCKHDQ, c3, c2)
	for j, v := range []vec{m.binary(m.VPUNPCKLQDQ, e, a), m.binary(m.VPUNPCKHQDQ, e, a), m.binary(m.VPUNPCKLQDQ, f, b), m.binary(m.VPUNPCKHQDQ, f, b)} {
		m.VMOVUPS(v, operand.Mem{Base: dst.(reg.Register), Disp: 4 * m.w * j})
	}
	m.VPADDD(m.bits(uint32(m.w)), at, at)
	m.ADDQ(operand.I32(16*m.w), dst)
	m.SUBQ(operand.U8(4*m.w), n)
	m.JGE(operand.LabelRef("loop"))
	m.Label("done")
	m.end()
}
