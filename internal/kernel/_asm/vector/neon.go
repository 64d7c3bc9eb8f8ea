package main

import "trireme/asm/arm"

// Kernels of NEON whose instructions or loops differ from those of machine.

// counted emits a loop over the elements of a slice, step at a time; the length is a multiple of step or, with round,
// rounded down to one.
func (m *machine) counted(param string, step int, body func()) {
	b := m.arm
	n := b.Arg(param + ".len")
	b.Op("SUBS $%d, R%d, R%d", step, n, n)
	b.Branch("done", "BLT")
	b.Label("loop")
	body()
	b.Op("SUBS $%d, R%d, R%d", step, n, n)
	b.Branch("loop", "BGE")
	b.Label("done")
}

func forward(b *arm.Builder, base arm.Reg, bytes int) { b.Op("ADD $%d, R%d", bytes, base) }

// blockSquaresNEON sums in the order of blockSquaresGeneric: eight doubles, in halves.
func (m *machine) blockSquaresNEON() {
	b := m.arm
	d, x := b.Arg("dst.base"), b.Arg("x.base")
	m.counted("dst", 1, func() {
		acc := [4]arm.Reg{b.Zero(), b.Zero(), b.Zero(), b.Zero()}
		for j := range 16 {
			v := b.Load(x, 16*j)
			low, high := b.Doubles(v), b.Doubles2(v)
			b.FMADoubles(acc[j%2*2], low, low)
			b.FMADoubles(acc[j%2*2+1], high, high)
		}
		s := b.SumDoubles(b.AddDoubles(b.AddDoubles(acc[0], acc[2]), b.AddDoubles(acc[1], acc[3])))
		b.Op("FMOVD F%d, (R%d)", s, d)
		forward(b, x, 256)
		forward(b, d, 8)
	})
	b.End()
}

// conversionsNEON handles multiples of 16 elements; Go does the rest, with the same bits.
func (m *machine) conversionsNEON() {
	b := m.arm
	widen := func(name string, low, high func(arm.Reg) arm.Reg) {
		m.function(name, "func(dst []float32, src []uint16)", "is "+name+"Generic for multiples of 16.")
		d, s := b.Arg("dst.base"), b.Arg("src.base")
		m.counted("dst", 16, func() {
			for v := range 2 {
				x := b.Load(s, 16*v)
				b.Store(low(x), d, 32*v)
				b.Store(high(x), d, 32*v+16)
			}
			forward(b, s, 32)
			forward(b, d, 64)
		})
		b.End()
	}
	widen("bf16ToF32", b.OfBF16, b.OfBF16Up)
	widen("f16ToF32", b.OfHalf, b.OfHalf2)

	narrow := func(name string, convert func(x, y arm.Reg) arm.Reg) {
		m.function(name, "func(dst []uint16, src []float32)", "is "+name+"Generic for multiples of 16.")
		d, s := b.Arg("dst.base"), b.Arg("src.base")
		m.counted("dst", 16, func() {
			for v := range 2 {
				b.Store(convert(b.Load(s, 32*v), b.Load(s, 32*v+16)), d, 16*v)
			}
			forward(b, s, 64)
			forward(b, d, 32)
		})
		b.End()
	}
	narrow("f32ToF16", func(x, y arm.Reg) arm.Reg {
		r := b.ToHalf(x)
		b.ToHalf2(r, y)
		return r
	})
	round := func(x arm.Reg) arm.Reg {
		top := b.Right(x, 16)
		r := b.AddWords(b.AddWords(x, b.And(top, b.Const(1))), b.Const(0x7fff))
		number := b.Equal(x, x)
		b.Select(number, b.Right(r, 16), b.Or(top, b.Const(0x40)))
		return number
	}
	narrow("f32ToBF16", func(x, y arm.Reg) arm.Reg {
		r := b.Narrow(round(x))
		b.Narrow2(r, round(y))
		return r
	})
}

// quantizedNEON has four sums.
func (m *machine) quantizedNEON() {
	b := m.arm
	blocks := func(body func(w, x, scale arm.Reg)) {
		s, w, x := b.Arg("scales.base"), b.Arg("w.base"), b.Arg("x.base")
		m.counted("scales", 1, func() {
			body(w, x, b.Repeat(s))
			forward(b, s, 4)
			forward(b, w, quantBlock)
			forward(b, x, 4*quantBlock)
		})
	}
	floats := func(w arm.Reg, v int) [4]arm.Reg { // of 16 weights
		x := b.Load(w, 16*v)
		low, high := b.Shorts(x), b.Shorts2(x)
		return [4]arm.Reg{b.ToFloats(b.Words(low)), b.ToFloats(b.Words2(low)), b.ToFloats(b.Words(high)), b.ToFloats(b.Words2(high))}
	}
	m.function("dotQuantized", "func(x []float32, w []uint8, scales []float32) float32", "is dotQuantizedGeneric for whole blocks.")
	sums := m.accumulators(4)
	blocks(func(w, x, scale arm.Reg) {
		var part [4]arm.Reg
		for v := range quantBlock / 16 {
			for i, q := range floats(w, v) {
				if v == 0 {
					part[i] = b.Mul(q, b.Load(x, 16*i))
					continue
				}
				b.FMA(part[i], q, b.Load(x, 64*v+16*i))
			}
		}
		for i, p := range part {
			b.FMA(m.a(sums[i]), p, scale)
		}
	})
	m.single(m.reduce(m.add(m.add(sums[0], sums[1]), m.add(sums[2], sums[3])), false))
	b.End()

	m.function("dequantize", "func(x []float32, w []uint8, scales []float32)", "is dequantizeGeneric for whole blocks; x is dst.")
	blocks(func(w, x, scale arm.Reg) {
		for v := range quantBlock / 16 {
			for i, q := range floats(w, v) {
				b.Store(b.Mul(q, scale), x, 64*v+16*i)
			}
		}
	})
	b.End()
}

// randomWordsNEON runs Philox on one counter per lane, and transposes the words.
func (m *machine) randomWordsNEON() {
	b := m.arm
	m.function("randomWords", "func(dst []uint32, c *[6]uint32)",
		"is randomWordsGeneric from counter c[0] + c[1]<<32 on, stream c[2] + c[3]<<32, seed c[4] + c[5]<<32. c[0] does not overflow.")
	dst, c := b.Arg("dst.base"), b.Arg("c")
	word := func(i int) arm.Reg { return b.Dup(b.Lane(c, 4*i)) }
	at, lanes := b.V(), b.G()
	b.Op("MOVD $0x100000000, R%d", lanes)
	b.Op("VMOV R%d, V%d.D[0]", lanes, at)
	b.Op("MOVD $0x300000002, R%d", lanes)
	b.Op("VMOV R%d, V%d.D[1]", lanes, at)
	first := b.AddWords(word(0), at)
	b.Set(at, first)
	rest := [5]arm.Reg{word(1), word(2), word(3), word(4), word(5)}
	f0, f1, add0, add1 := b.Const(0xD2511F53), b.Const(0xCD9E8D57), b.Const(0x9E3779B9), b.Const(0xBB67AE85)
	multiply := func(a, f arm.Reg) (low, high arm.Reg) {
		p, q := b.MulLong(a, f), b.MulLong2(a, f)
		return b.Even(p, q), b.Odd(p, q)
	}
	m.counted("dst", 16, func() {
		c0, c1, c2, c3, k0, k1 := at, rest[0], rest[1], rest[2], rest[3], rest[4]
		for round := range 10 {
			low0, high0 := multiply(c0, f0)
			low2, high2 := multiply(c2, f1)
			c0, c1, c2, c3 = b.Xor(b.Xor(high2, c1), k0), low2, b.Xor(b.Xor(high0, c3), k1), low0
			if round < 9 {
				k0, k1 = b.AddWords(k0, add0), b.AddWords(k1, add1)
			}
		}
		for i, v := range b.Transpose([4]arm.Reg{c0, c1, c2, c3}) {
			b.Store(v, dst, 16*i)
		}
		b.Set(at, b.AddWords(at, b.Const(4)))
		forward(b, dst, 64)
	})
	b.End()
}
