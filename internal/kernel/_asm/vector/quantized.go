package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantBlock is the number of 8-bit weights that share a scale.
const quantBlock = 64

// quantized emits kernels of 8-bit weights, which read whole blocks.
func quantized(m *machine) {
	if m.arm != nil {
		m.quantizedNEON()
		return
	}
	blocks := func(body func(weight, float func(v int) operand.Mem, scale vec)) {
		n, i, b := m.length("scales"), m.GP64(), m.GP64()
		s := m.base("scales").(reg.Register)
		w := m.base("w").(reg.Register)
		f := m.base("x").(reg.Register)
		m.XORQ(i, i)
		m.XORQ(b, b)
		m.CMPQ(b, n)
		m.JGE(operand.LabelRef("done"))
		m.Label("block")
		body(func(v int) operand.Mem { return operand.Mem{Base: w, Index: i, Scale: 1, Disp: m.w * v} },
			func(v int) operand.Mem { return operand.Mem{Base: f, Index: i, Scale: 4, Disp: 4 * m.w * v} },
			m.broadcast(operand.Mem{Base: s, Index: b, Scale: 4}))
		m.ADDQ(operand.U8(quantBlock), i)
		m.INCQ(b)
		m.CMPQ(b, n)
		m.JLT(operand.LabelRef("block"))
		m.Label("done")
	}
	floats := func(at operand.Mem) vec {
		d := m.vec()
		m.VPMOVSXBD(at, d)
		m.VCVTDQ2PS(d, d)
		return d
	}

	m.function("dotQuantized", "func(x []float32, w []uint8, scales []float32) float32", "is dotQuantizedGeneric for whole blocks.")
	sums := m.accumulators(2)
	blocks(func(weight, float func(v int) operand.Mem, scale vec) {
		var part [2]vec // one for every other vector
		for v := range quantBlock / m.w {
			q := floats(weight(v))
			if v < len(part) {
				part[v] = m.mul(q, float(v))
				continue
			}
			m.fma(part[v%2], q, float(v))
		}
		for v, p := range part {
			m.fma(sums[v], p, scale)
		}
	})
	m.single(m.reduce(m.add(sums[0], sums[1]), false))
	m.end()

	m.function("dequantize", "func(x []float32, w []uint8, scales []float32)", "is dequantizeGeneric for whole blocks; x is dst.")
	blocks(func(weight, float func(v int) operand.Mem, scale vec) {
		for v := range quantBlock / m.w {
			m.VMOVUPS(m.mul(floats(weight(v)), scale), float(v))
		}
	})
	m.end()
}
