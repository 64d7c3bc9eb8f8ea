package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantBlock is the number of 8-bit weights that share a scale.
const quantBlock = 64

// quantAhead is the number of bytes by which the memory of each row is fetched ahead.
const quantAhead = 512

// quantRows is the number of rows that are read at the same time, by AVX-512 or not.
var quantRows = map[bool]int{true: 8, false: 4}

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

	m.dotQuantized("dotQuantized", 1)
	m.dotQuantized("dotQuantizedRows", quantRows[m.wide])

	m.function("dequantize", "func(x []float32, w []uint8, scales []float32)", "is dequantizeGeneric for whole blocks; x is dst.")
	blocks(func(weight, float func(v int) operand.Mem, scale vec) {
		for v := range quantBlock / m.w {
			m.VMOVUPS(m.mul(floats(weight(v)), scale), float(v))
		}
	})
	m.end()
}

// dotQuantized emits the products of one row of floats with rows of weights. A row has one order of sums, whatever the
// number of rows: in a block a chain of vectors, then a chain of blocks.
func (m *machine) dotQuantized(name string, rows int) {
	if rows == 1 {
		m.function(name, "func(blocks int, x *float32, w *uint8, scales *float32) float32", "is dotQuantizedGeneric for whole blocks; blocks is not 0.")
	} else {
		m.function(name, "func(blocks int, x *float32, w *uint8, ldw int, scales *float32, lds int, y *float32)",
			fmt.Sprintf("sets y[r], r in [0, %d), to dotQuantized of row r, which is ldw weights and lds scales after the one before; blocks is not 0.", rows))
	}
	param := func(name string) reg.GPVirtual {
		r := m.GP64()
		m.Load(m.Param(name), r)
		return r
	}
	// every third row has a pointer, which strides address two rows after
	pointers := func(base, stride reg.GPVirtual) []reg.GPVirtual {
		out := []reg.GPVirtual{base}
		for r := 3; r < rows; r += 3 {
			p := m.GP64()
			m.LEAQ(operand.Mem{Base: out[len(out)-1], Index: stride, Scale: 2}, p)
			m.ADDQ(stride, p)
			out = append(out, p)
		}
		return out
	}
	at := func(ps []reg.GPVirtual, stride reg.GPVirtual, r, disp int) operand.Mem {
		a := operand.Mem{Base: ps[r/3], Disp: disp}
		if r%3 > 0 {
			a.Index, a.Scale = stride, uint8(r%3)
		}
		return a
	}
	blocks, x := param("blocks"), param("x")
	var ldw, lds reg.GPVirtual
	w, s := param("w"), param("scales")
	if rows > 1 {
		ldw, lds = param("ldw"), param("lds")
		m.SHLQ(operand.Imm(2), lds)
	}
	ws, ss := pointers(w, ldw), pointers(s, lds)
	sums := m.accumulators(rows)
	m.Label("block")
	parts := make([]vec, rows)
	for r := range rows {
		m.PREFETCHT0(at(ws, ldw, r, quantAhead))
	}
	for v := range quantBlock / m.w {
		f := m.vec()
		m.VMOVUPS(operand.Mem{Base: x, Disp: 4 * m.w * v}, f)
		for r := range rows {
			q := m.vec()
			m.VPMOVSXBD(at(ws, ldw, r, m.w*v), q)
			m.VCVTDQ2PS(q, q)
			if v == 0 {
				parts[r] = m.mul(q, f)
			} else {
				m.fma(parts[r], q, f)
			}
		}
	}
	for r, p := range parts {
		m.fma(sums[r], p, m.broadcast(at(ss, lds, r, 0)))
	}
	m.ADDQ(operand.U32(4*quantBlock), x)
	for i := range ws {
		m.ADDQ(operand.U8(quantBlock), ws[i])
		m.ADDQ(operand.U8(4), ss[i])
	}
	m.DECQ(blocks)
	m.JNZ(operand.LabelRef("block"))
	if rows == 1 {
		m.single(m.reduce(sums[0], false))
		m.end()
		return
	}
	y := param("y")
	for r, sum := range sums {
		m.VMOVSS(m.reduce(sum, false).(reg.VecVirtual).AsX(), operand.Mem{Base: y, Disp: 4 * r})
	}
	m.end()
}
