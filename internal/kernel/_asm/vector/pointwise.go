package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"trireme/asm/arm"
)

const (
	geluRoot = 0.79788456080286535588 // sqrt(2/pi)
	geluCube = 0.044715
	density  = 0.39894228040143267794 // 1/sqrt(2 pi)
)

func pointwise(m *machine) {
	m.function("add", "func(dst, a, b []float32)", "is addGeneric.")
	d, a, b := m.base("dst"), m.base("a"), m.base("b")
	m.loop("dst", "", 4, func(u int) { m.put(m.add(m.get(a, u), m.get(b, u)), d, u) })
	m.end()

	m.function("addScaled", "func(dst, a, b []float32, s float32)", "is addScaledGeneric.")
	d, a, b = m.base("dst"), m.base("a"), m.base("b")
	s := m.scalar("s")
	m.loop("dst", "", 2, func(u int) { m.put(m.add(m.get(a, u), m.mul(m.get(b, u), s)), d, u) })
	m.end()

	m.function("scale", "func(x []float32, s float32)", "is scaleGeneric.")
	d = m.base("x")
	s = m.scalar("s")
	m.loop("x", "", 4, func(u int) { m.put(m.mul(m.get(d, u), s), d, u) })
	m.end()

	m.function("swiglu", "func(dst, gate, up []float32)", "is swigluGeneric.")
	d, a, b = m.base("dst"), m.base("gate"), m.base("up")
	m.loop("dst", "", 1, func(u int) {
		g := m.get(a, u)
		_, s := m.logistic(g)
		m.put(m.mul(m.mul(g, s), m.get(b, u)), d, u)
	})
	m.end()

	m.function("swigluBackward", "func(dgate, dup, dy, gate, up []float32)", "is swigluBackwardGeneric.")
	d, d2, y := m.base("dgate"), m.base("dup"), m.base("dy")
	a, b = m.base("gate"), m.base("up")
	m.loop("dgate", "", 1, func(u int) {
		g := m.get(a, u)
		e, s := m.logistic(m.max(m.load(m.f(-88)), g)) // clamped so that e is finite: 1-s is e*s
		f := m.mul(e, s)
		m.horner(&f, g, m.f(1)) // 1 + g(1-s)
		dy, up := m.get(y, u), m.get(b, u)
		ds := m.mul(dy, s)
		m.put(m.mul(m.mul(ds, up), f), d, u)
		m.put(m.mul(ds, g), d2, u)
	})
	m.end()

	m.function("geluTanh", "func(dst, x []float32)", "is geluTanhGeneric, through (1+tanh(u))/2 = 1/(1+exp(-2u)).")
	d, a = m.base("dst"), m.base("x")
	m.loop("dst", "", 1, func(u int) {
		x := m.get(a, u)
		_, s := m.logistic(m.mul(m.geluInner(m.mul(x, x)), x))
		m.put(m.mul(x, s), d, u)
	})
	m.end()

	m.function("geluTanhBackward", "func(dx, dy, x []float32)", "is geluTanhBackwardGeneric.")
	d, y, a = m.base("dx"), m.base("dy"), m.base("x")
	m.loop("dx", "", 1, func(u int) {
		x := m.clamp(m.get(a, u), -10, 10) // beyond, the derivative is 0 or 1
		q := m.mul(x, x)
		e, s := m.logistic(m.mul(m.geluInner(q), x))
		slope := m.load(m.f(6 * geluRoot * geluCube))
		m.horner(&slope, q, m.f(2*geluRoot))
		g := m.mul(m.mul(m.mul(e, s), x), slope)
		m.horner(&g, s, s)
		m.put(m.mul(g, m.get(y, u)), d, u)
	})
	m.end()

	m.function("geluErf", "func(dst, x []float32)", "is geluErfGeneric.")
	d, a = m.base("dst"), m.base("x")
	m.loop("dst", "", 1, func(u int) {
		x := m.get(a, u)
		m.put(m.mul(m.normalCDF(x), x), d, u)
	})
	m.end()

	m.function("geluErfBackward", "func(dx, dy, x []float32)", "is geluErfBackwardGeneric.")
	d, y, a = m.base("dx"), m.base("dy"), m.base("x")
	m.loop("dx", "", 1, func(u int) {
		x := m.get(a, u)
		g := m.normalCDF(x)
		e := m.exp(m.mul(m.mul(x, x), m.f(-0.5)))
		m.fma(g, m.mul(e, m.f(density)), x)
		m.put(m.mul(g, m.get(y, u)), d, u)
	})
	m.end()

	ropes(m)
}

// geluInner computes 2*sqrt(2/pi)*(1 + 0.044715 q) for q = x^2.
func (m *machine) geluInner(q vec) vec {
	p := m.load(m.f(2 * geluRoot * geluCube))
	m.horner(&p, q, m.f(2*geluRoot))
	return p
}

func ropes(m *machine) {
	m.function("rope", "func(dst, x, cos, sin []float32, headDim int, flip uint32)", "is ropeGeneric; flip is the sign bit for the inverse.")
	d, x, c, s := m.base("dst"), m.base("x"), m.base("cos"), m.base("sin")
	half := func(db, xb operand.Op, flip vec) func(int) {
		return func(u int) {
			cos, sin := m.get(c, u), m.xor(m.get(s, u), flip)
			a, b := m.get(x, u), m.get(xb, u)
			p, q := m.mul(a, cos), m.mul(b, cos)
			m.fnma(p, b, sin)
			m.fma(q, a, sin)
			m.put(p, d, u)
			m.put(q, db, u)
		}
	}
	if m.arm != nil {
		m.ropeNEON(m.a(d), m.a(x), half)
		return
	}
	addr, err := m.Param("flip").Resolve()
	if err != nil {
		panic(err)
	}
	flip := m.broadcast(addr.Addr)
	step, left := m.GP64(), m.length("dst")
	m.Load(m.Param("headDim"), step)
	m.n = m.GP64()
	m.MOVQ(step, m.n)
	m.SHRQ(operand.U8(1), m.n)
	db, xb := m.GP64(), m.GP64()
	m.Label("head")
	m.CMPQ(left, step)
	m.JLT(operand.LabelRef("end"))
	m.LEAQ(operand.Mem{Base: d.(reg.Register), Index: m.n, Scale: 4}, db)
	m.LEAQ(operand.Mem{Base: x.(reg.Register), Index: m.n, Scale: 4}, xb)
	m.loopTo("half", 1, half(db, xb, flip))
	m.LEAQ(operand.Mem{Base: d.(reg.Register), Index: step, Scale: 4}, d)
	m.LEAQ(operand.Mem{Base: x.(reg.Register), Index: step, Scale: 4}, x)
	m.SUBQ(step, left)
	m.JMP(operand.LabelRef("head"))
	m.Label("end")
	m.end()
}

// ropeNEON loops over heads; half is the body of one.
func (m *machine) ropeNEON(d, x arm.Reg, half func(db, xb operand.Op, flip vec) func(int)) {
	b := m.arm
	sign, left, step := b.G(), b.Arg("dst.len"), b.Arg("headDim")
	b.Op("MOVWU "+b.Address("flip")+", R%d", sign)
	flip := b.V()
	b.Op("VDUP R%d, V%d.S4", sign, flip)
	m.an = b.G()
	b.Op("LSR $1, R%d, R%d", step, m.an)
	db, xb := b.G(), b.G()
	b.Label("head")
	b.Op("CMP R%d, R%d", step, left)
	b.Branch("end", "BLT")
	b.Op("ADD R%d<<2, R%d, R%d", m.an, d, db)
	b.Op("ADD R%d<<2, R%d, R%d", m.an, x, xb)
	m.loopTo("half", 1, half(db, xb, flip))
	b.Op("ADD R%d<<2, R%d, R%d", step, d, d)
	b.Op("ADD R%d<<2, R%d, R%d", step, x, x)
	b.Op("SUB R%d, R%d", step, left)
	b.Branch("head", "B")
	b.Label("end")
	m.end()
}
