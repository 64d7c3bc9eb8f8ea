package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"trireme/asm/arm"
)

// least approximates the logarithm of the smallest normal number. exp returns 0 below it, since
// arithmetic on subnormal numbers is about a hundred times slower.
const least = -87.3

// exp computes e^x to 1 ulp: x = n ln2 + r with r in +-ln2/2, a polynomial in r (Moshier, Cephes
// expf), times 2^n. Overflow gives infinity, subnormal results are 0, NaN stays NaN.
func (m *machine) exp(x vec) vec {
	if m.arm != nil {
		return m.expNEON(m.a(x))
	}
	low := m.load(m.f(least))
	var k reg.OpmaskVirtual
	above := m.vec()
	const notLess = 5 // or NaN
	if m.wide {
		k = m.K()
		m.VCMPPS(operand.U8(notLess), low, x, k)
	} else {
		m.VCMPPS(operand.U8(notLess), low, x, above)
	}
	x = m.max(low, m.min(m.load(m.f(89)), x))
	t := m.mul(x, m.f(log2e))
	n := m.vec()
	if m.wide {
		m.VRNDSCALEPS(operand.U8(8), t, n)
	} else {
		m.VROUNDPS(operand.U8(8), t, n)
	}
	p := m.expOf(x, n)
	if m.wide {
		m.VSCALEFPS_Z(n, p, k, above)
		return above
	}
	// 2^n in two factors, because n may be 128.
	i, h := m.vec(), m.vec()
	m.VCVTPS2DQ(n, i)
	m.VPSRAD(operand.U8(1), i, h)
	m.VPSUBD(h, i, i)
	for _, e := range []vec{h, i} {
		m.VPADDD(m.bits(127), e, e)
		m.VPSLLD(operand.U8(23), e, e)
		p = m.mul(p, e)
	}
	return m.and(p, above)
}

const log2e = 1.44269504088896341

// expOf computes e^(x - n ln2), and overwrites x.
func (m *machine) expOf(x, n vec) vec {
	m.fnma(x, n, m.bits(0x3f317200)) // ln2 in two parts
	m.fnma(x, n, m.bits(0x35bfbe8e))
	p := m.load(m.f(1.9875691500e-4))
	for _, c := range []float64{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		m.horner(&p, x, m.f(c))
	}
	m.horner(&p, m.mul(x, x), x)
	return m.add(p, m.f(1))
}

// expNEON is exp with 2^n in two factors, as for AVX2.
func (m *machine) expNEON(x arm.Reg) vec {
	b := m.arm
	low := b.Float(least)
	below := b.Greater(low, x)
	x = b.Max(low, b.Min(b.Float(89), x))
	n := b.Round(b.Mul(x, b.Float(log2e)))
	p := m.a(m.expOf(x, n))
	i := b.ToWords(n)
	h := b.RightSigned(i, 1)
	for _, e := range []arm.Reg{h, b.SubWords(i, h)} {
		p = b.Mul(p, b.Left(b.AddWords(e, b.Const(127)), 23))
	}
	return b.AndNot(p, below)
}

func (m *machine) neg(x vec) vec { return m.xor(x, m.bits(0x80000000)) }

// reciprocal computes 1/x.
func (m *machine) reciprocal(x vec) vec { return m.div(m.load(m.f(1)), x) }

// logistic computes e = exp(-x) and 1/(1+e).
func (m *machine) logistic(x vec) (e, s vec) {
	e = m.exp(m.neg(x))
	return e, m.reciprocal(m.add(e, m.f(1)))
}

// clamp limits x to [lo, hi]; NaN stays NaN.
func (m *machine) clamp(x vec, lo, hi float64) vec {
	return m.max(m.load(m.f(lo)), m.min(m.load(m.f(hi)), x))
}

// normalCDF computes the standard normal distribution function by the rational Chebyshev fit of erfc
// (Press et al., Numerical Recipes, erfcc: relative error 1.2e-7) at |x|/sqrt(2).
func (m *machine) normalCDF(x vec) vec {
	z := m.mul(m.and(x, m.bits(0x7fffffff)), m.f(0.70710678118654752))
	d := m.load(m.f(0.5))
	m.horner(&d, z, m.f(1))
	t := m.reciprocal(d)
	p := m.load(m.f(0.17087277))
	for _, c := range []float64{-0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223} {
		m.horner(&p, t, m.f(c))
	}
	m.fnma(p, z, z)
	half := m.mul(m.mul(t, m.exp(p)), m.f(0.5))
	up := m.sub(m.load(m.f(1)), half)
	if m.arm != nil {
		k := m.arm.RightSigned(m.a(x), 31)
		m.arm.Select(k, m.a(half), m.a(up))
		return k
	}
	d2 := m.vec()
	if m.wide {
		k := m.K()
		m.VPMOVD2M(x, k) // the sign
		m.VBLENDMPS(half, up, k, d2)
	} else {
		m.VBLENDVPS(x, half, up, d2)
	}
	return d2
}
