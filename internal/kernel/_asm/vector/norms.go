package main

import "github.com/mmcloughlin/avo/operand"

// sums is the number of accumulators: vector j of a row goes to accumulator j%sums while at least
// sums vectors are left, then to the first.
const sums = 4

func norms(m *machine) {
	m.function("squares", "func(x []float32) float64", "is squaresGeneric in F32 lanes.")
	x := m.base("x")
	acc := m.accumulators(sums)
	m.loop("x", "", sums, func(u int) {
		v := m.get(x, u)
		m.fma(acc[u], v, v)
	})
	m.result(0, acc)
	m.end()

	m.function("sum", "func(x []float32) float64", "is sumGeneric in F32 lanes.")
	x = m.base("x")
	acc = m.accumulators(sums)
	m.loop("x", "", sums, func(u int) { m.addTo(acc[u], m.get(x, u)) })
	m.result(0, acc)
	m.end()

	m.function("centeredSquares", "func(x []float32, mean float32) float64", "is centeredSquaresGeneric in F32 lanes.")
	x = m.base("x")
	mean := m.scalar("mean")
	acc = m.accumulators(sums)
	m.loop("x", "", sums, func(u int) {
		v := m.keep(m.sub(m.get(x, u), mean))
		m.fma(acc[u], v, v)
	})
	m.result(0, acc)
	m.end()

	m.function("dot3", "func(a, b, c []float32) float64", "is dot3Generic in F32 lanes.")
	a, b, c := m.base("a"), m.base("b"), m.base("c")
	acc = m.accumulators(sums)
	m.loop("a", "", sums, func(u int) { m.fma(acc[u], m.mul(m.get(a, u), m.get(b, u)), m.get(c, u)) })
	m.result(0, acc)
	m.end()

	m.function("layerDots", "func(dy, w, x []float32, mean float32) (total, dot float64)", "is layerDotsGeneric in F32 lanes.")
	dy, w := m.base("dy"), m.base("w")
	x = m.base("x")
	mean = m.scalar("mean")
	acc, accX := m.accumulators(sums/2), m.accumulators(sums/2)
	m.loop("dy", "", sums/2, func(u int) {
		p := m.mul(m.get(dy, u), m.get(w, u))
		m.addTo(acc[u], p)
		m.fma(accX[u], p, m.keep(m.sub(m.get(x, u), mean)))
	})
	m.result(0, acc)
	m.result(1, accX)
	m.end()

	m.function("rmsScale", "func(y, x, w []float32, rstd float32)", "is rmsScaleGeneric.")
	y := m.base("y")
	x, w = m.base("x"), m.base("w")
	rstd := m.scalar("rstd")
	m.loop("y", "", 2, func(u int) { m.put(m.mul(m.mul(m.get(x, u), rstd), m.get(w, u)), y, u) })
	m.end()

	m.function("layerScale", "func(y, x, w, b []float32, mean, rstd float32)", "is layerScaleGeneric.")
	y = m.base("y")
	x, w, b = m.base("x"), m.base("w"), m.base("b")
	mean, rstd = m.scalar("mean"), m.scalar("rstd")
	m.loop("y", "", 2, func(u int) {
		v := m.mul(m.sub(m.get(x, u), mean), rstd)
		m.horner(&v, m.get(w, u), m.get(b, u))
		m.put(v, y, u)
	})
	m.end()

	gradient(m, false)
	gradient(m, true)
}

// gradient emits the second pass of the backward of RMSNorm or LayerNorm.
func gradient(m *machine, layer bool) {
	if layer {
		m.function("layerGradient", "func(dx, dw, db, dy, dres, x, w []float32, mean, rstd, k, c float32)", "is layerGradientGeneric.")
	} else {
		m.function("rmsGradient", "func(dx, dw, dy, dres, x, w []float32, rstd, k float32)", "is rmsGradientGeneric.")
	}
	dx, dw, dy, dres, x, w := m.base("dx"), m.base("dw"), m.base("dy"), m.base("dres"), m.base("x"), m.base("w")
	rstd, k := m.scalar("rstd"), m.scalar("k")
	db, mean, c := dx, rstd, k
	if layer {
		db, mean, c = m.base("db"), m.scalar("mean"), m.scalar("c")
	}
	body := func(residual bool) func(u int) {
		return func(u int) {
			d, xc := m.get(dy, u), m.get(x, u)
			if layer {
				xc = m.sub(xc, mean)
				m.put(m.add(m.get(db, u), d), db, u)
			}
			sum := m.get(dw, u)
			m.fma(sum, m.mul(xc, rstd), d)
			m.put(sum, dw, u)
			g := m.mul(m.mul(d, rstd), m.get(w, u))
			m.fnma(g, xc, k)
			if layer {
				g = m.sub(g, c)
			}
			if residual {
				g = m.add(g, m.get(dres, u))
			}
			m.put(g, dx, u)
		}
	}
	if m.arm != nil {
		m.arm.Branch("plain", "CBZ R%d,", dres)
	} else {
		m.TESTQ(dres, dres)
		m.JZ(operand.LabelRef("plain"))
	}
	m.loop("dx", "res", 1, body(true))
	if m.arm != nil {
		m.arm.Op("RET")
		m.arm.Label("plain")
	} else {
		m.end()
		m.Label("plain")
	}
	m.loop("dx", "plain", 1, body(false))
	m.end()
}
