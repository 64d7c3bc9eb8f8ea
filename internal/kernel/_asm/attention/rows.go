package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// exp2C are the coefficients of exp2 in attention_generic.go, from the first power on.
var exp2C = []float32{0x1.62e42ep-01, 0x1.ebfcd2p-03, 0x1.c6929ep-05, 0x1.3cbf84p-07, 0x1.48fd10p-10, 0x1.bf73eap-13}

func constant(x float32) VecVirtual {
	r, z := GP32(), ZMM()
	MOVL(U32(math.Float32bits(x)), r)
	VPBROADCASTD(r, z)
	return z
}

// exp2Consts are 1 and exp2C in registers.
func exp2Consts() []VecVirtual {
	c := []VecVirtual{constant(1)}
	for _, x := range exp2C {
		c = append(c, constant(x))
	}
	return c
}

// exp2 replaces each of xs by 2^x: a polynomial of x - floor(x), scaled by 2^floor(x).
// The vectors' instructions alternate.
func exp2(xs, c []VecVirtual) {
	n := len(c) - 1
	var f, p []VecVirtual
	for range xs {
		f, p = append(f, ZMM()), append(p, ZMM())
	}
	for i, x := range xs {
		VREDUCEPS(Imm(1), x, f[i])
		VMOVAPS(c[n], p[i])
	}
	for j := n - 1; j >= 0; j-- {
		for i := range xs {
			VFMADD213PS(c[j], f[i], p[i])
		}
	}
	for i, x := range xs {
		VSCALEFPS(x, p[i], x)
	}
}

// fold leaves op over all lanes of z in every lane.
func fold(z VecVirtual, op func(a, b, c Op)) {
	t := ZMM()
	for _, imm := range []uint64{0x4e, 0xb1} {
		VSHUFF32X4(Imm(imm), z, z, t)
		op(t, z, z)
	}
	for _, imm := range []uint64{0x4e, 0xb1} {
		VSHUFPS(Imm(imm), z, z, t)
		op(t, z, z)
	}
}

// visible holds, for one row, what is seen: whole vectors [from,to) in bytes, and masks of
// the lanes of the first and the last that are.
type visible struct {
	from, to    GPVirtual
	first, last OpmaskVirtual
}

// see loads a row's range. It jumps to empty where nothing is seen.
func see(lo, hi GPVirtual, empty string) visible {
	v := visible{GP64(), GP64(), K(), K()}
	MOVLQSX(Mem{Base: lo}, v.from)
	MOVLQSX(Mem{Base: hi}, v.to)
	CMPQ(v.from, v.to)
	JGE(LabelRef(empty))
	bits := GP32()
	ones := GP32()
	MOVL(U32(0xffff), ones)
	n := GP32()
	MOVL(v.from.As32(), n)
	ANDL(Imm(15), n)
	SHLXL(n, ones, bits)
	KMOVW(bits, v.first)
	MOVL(v.to.As32(), n)
	NEGL(n)
	ANDL(Imm(15), n)
	SHRXL(n, ones, bits)
	KMOVW(bits, v.last)
	ANDQ(I8(-16), v.from)
	ADDQ(Imm(15), v.to)
	ANDQ(I8(-16), v.to)
	SHLQ(U8(2), v.from)
	SHLQ(U8(2), v.to)
	return v
}

// edges sets the lanes that are not seen of a row's first and last vector to x.
func (v visible) edges(p GPVirtual, x VecVirtual) {
	z := ZMM()
	VBLENDMPS(Mem{Base: p, Index: v.from, Scale: 1}, x, v.first, z)
	VMOVUPS(z, Mem{Base: p, Index: v.from, Scale: 1})
	VBLENDMPS(Mem{Base: p, Index: v.to, Scale: 1, Disp: -64}, x, v.last, z)
	VMOVUPS(z, Mem{Base: p, Index: v.to, Scale: 1, Disp: -64})
}

// zeros clears columns [from,to) of rows; it changes from.
func zeros(name string, from, to GPVirtual, rows ...GPVirtual) {
	z := ZMM()
	VPXORD(z, z, z)
	JMP(LabelRef(name + "test"))
	Label(name)
	for _, p := range rows {
		VMOVUPS(z, Mem{Base: p, Index: from, Scale: 1})
	}
	ADDQ(Imm(64), from)
	Label(name + "test")
	CMPQ(from, to)
	JL(LabelRef(name))
}

// each runs body over the whole vectors of [from,to), some at a time and then one at a time.
// body gets the offset's register and how many vectors.
func each(name string, from, to GPVirtual, wide int, body func(at GPVirtual, n int)) {
	at := GP64()
	MOVQ(from, at)
	SUBQ(U32(64*(wide-1)), to)
	JMP(LabelRef(name + "test"))
	Label(name)
	body(at, wide)
	ADDQ(U32(64*wide), at)
	Label(name + "test")
	CMPQ(at, to)
	JL(LabelRef(name))
	ADDQ(U32(64*(wide-1)), to)
	JMP(LabelRef(name + "test1"))
	Label(name + "1")
	body(at, 1)
	ADDQ(Imm(64), at)
	Label(name + "test1")
	CMPQ(at, to)
	JL(LabelRef(name + "1"))
}

func zmms(n int) []VecVirtual {
	v := make([]VecVirtual, n)
	for i := range v {
		v[i] = ZMM()
	}
	return v
}

func softmaxAVX512() {
	begin("attnSoftmaxAVX512", "func(s *float32, ld, rows int, lo, hi *int32, c0, c1 int, top, sum, corr *float32)", "attnSoftmaxAVX512 is attnOps.softmax with AVX-512.")
	const wide = 4
	s, rows := arg("s"), arg("rows")
	lo, hi := arg("lo"), arg("hi")
	row := GP64()
	c := exp2Consts()
	inf := constant(float32(math.Inf(-1)))
	XORQ(row, row)
	Label("row")
	v := see(lo, hi, "empty")
	c0, c1 := stride("c0"), stride("c1")
	zeros("before", c0, v.from, s)
	after := GP64()
	MOVQ(v.to, after)
	zeros("after", after, c1, s)
	v.edges(s, inf)

	m := zmms(wide)
	for _, z := range m {
		VMOVAPS(inf, z)
	}
	each("max", v.from, v.to, wide, func(at GPVirtual, n int) {
		for i := range n {
			VMAXPS(Mem{Base: s, Index: at, Scale: 1, Disp: 64 * i}, m[i], m[i])
		}
	})
	VMAXPS(m[1], m[0], m[0])
	VMAXPS(m[3], m[2], m[2])
	VMAXPS(m[2], m[0], m[0])
	fold(m[0], func(a, b, c Op) { VMAXPS(a, b, c) })
	pt := arg("top")
	old := ZMM()
	VBROADCASTSS(Mem{Base: pt, Index: row, Scale: 4}, old)
	VMAXPS(old, m[0], m[0])
	VMOVSS(m[0].AsX(), Mem{Base: pt, Index: row, Scale: 4})
	// Where nothing was seen so far, subtract 0.
	k := K()
	base := m[0]
	VCMPPS(Imm(4), inf, base, k) // not equal
	VMOVAPS_Z(base, k, base)
	VSUBPS(base, old, old)
	exp2([]VecVirtual{old}, c)
	pc, ps := arg("corr"), arg("sum")
	VMOVSS(old.AsX(), Mem{Base: pc, Index: row, Scale: 4})

	t := zmms(wide)
	for _, z := range t {
		VPXORD(z, z, z)
	}
	each("exp", v.from, v.to, wide, func(at GPVirtual, n int) {
		x := zmms(n)
		for i := range n {
			VMOVUPS(Mem{Base: s, Index: at, Scale: 1, Disp: 64 * i}, x[i])
		}
		for i := range n {
			VSUBPS(base, x[i], x[i])
		}
		exp2(x, c)
		for i := range n {
			VMOVUPS(x[i], Mem{Base: s, Index: at, Scale: 1, Disp: 64 * i})
			VADDPS(x[i], t[i], t[i])
		}
	})
	VADDPS(t[1], t[0], t[0])
	VADDPS(t[3], t[2], t[2])
	VADDPS(t[2], t[0], t[0])
	fold(t[0], func(a, b, c Op) { VADDPS(a, b, c) })
	VFMADD231SS(Mem{Base: ps, Index: row, Scale: 4}, old.AsX(), t[0].AsX())
	VMOVSS(t[0].AsX(), Mem{Base: ps, Index: row, Scale: 4})

	Label("next")
	ld := stride("ld")
	ADDQ(ld, s)
	ADDQ(Imm(4), lo)
	ADDQ(Imm(4), hi)
	INCQ(row)
	CMPQ(row, rows)
	JL(LabelRef("row"))
	VZEROUPPER()
	RET()

	Label("empty")
	from, to := stride("c0"), stride("c1")
	zeros("none", from, to, s)
	pe := arg("corr")
	VMOVSS(c[0].AsX(), Mem{Base: pe, Index: row, Scale: 4})
	JMP(LabelRef("next"))
}

func gradientAVX512() {
	begin("attnGradientAVX512", "func(p, dp *float32, ld, rows int, lo, hi *int32, c0, c1 int, lse, d *float32)", "attnGradientAVX512 is attnOps.gradient with AVX-512.")
	const wide = 4
	p, dp, rows := arg("p"), arg("dp"), arg("rows")
	lo, hi := arg("lo"), arg("hi")
	lse, d := arg("lse"), arg("d")
	c := exp2Consts()
	inf, zero := constant(float32(math.Inf(-1))), ZMM()
	VPXORD(zero, zero, zero)
	Label("row")
	v := see(lo, hi, "empty")
	c0, c1 := stride("c0"), stride("c1")
	zeros("before", c0, v.from, p, dp)
	after := GP64()
	MOVQ(v.to, after)
	zeros("after", after, c1, p, dp)
	v.edges(p, inf)
	v.edges(dp, zero)
	l, dd := ZMM(), ZMM()
	VBROADCASTSS(Mem{Base: lse}, l)
	VBROADCASTSS(Mem{Base: d}, dd)
	each("exp", v.from, v.to, wide, func(at GPVirtual, n int) {
		x, g := zmms(n), zmms(n)
		for i := range n {
			VMOVUPS(Mem{Base: p, Index: at, Scale: 1, Disp: 64 * i}, x[i])
		}
		for i := range n {
			VSUBPS(l, x[i], x[i])
		}
		exp2(x, c)
		for i := range n {
			VMOVUPS(Mem{Base: dp, Index: at, Scale: 1, Disp: 64 * i}, g[i])
		}
		for i := range n {
			VMOVUPS(x[i], Mem{Base: p, Index: at, Scale: 1, Disp: 64 * i})
			VSUBPS(dd, g[i], g[i])
		}
		for i := range n {
			VMULPS(x[i], g[i], g[i])
			VMOVUPS(g[i], Mem{Base: dp, Index: at, Scale: 1, Disp: 64 * i})
		}
	})
	Label("next")
	ld := stride("ld")
	ADDQ(ld, p)
	ADDQ(ld, dp)
	for _, r := range []GPVirtual{lo, hi, lse, d} {
		ADDQ(Imm(4), r)
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()

	Label("empty")
	from, to := stride("c0"), stride("c1")
	zeros("none", from, to, p, dp)
	JMP(LabelRef("next"))
}

// tailMask has a bit for each of the last n%16 columns.
func tailMask(n GPVirtual) OpmaskVirtual {
	bits, count, k := GP32(), GP32(), K()
	MOVL(U32(1), bits)
	MOVL(n.As32(), count)
	ANDL(Imm(15), count)
	SHLXL(count, bits, bits)
	DECL(bits)
	KMOVW(bits, k)
	return k
}

func scaleAVX512() {
	begin("attnScaleAVX512", "func(dst *float32, dld int, src *float32, sld, rows, cols int, f *float32, fstep int)", "attnScaleAVX512 is attnOps.scale with AVX-512.")
	dst, src, f := arg("dst"), arg("src"), arg("f")
	dld, sld, fstep := stride("dld"), stride("sld"), stride("fstep")
	rows, cols := arg("rows"), arg("cols")
	k := tailMask(cols)
	end := GP64()
	MOVQ(cols, end)
	SHRQ(U8(4), end)
	SHLQ(U8(6), end)
	ANDQ(Imm(15), cols)
	at := GP64()
	Label("row")
	x, z := ZMM(), ZMM()
	VBROADCASTSS(Mem{Base: f}, x)
	XORQ(at, at)
	JMP(LabelRef("test"))
	Label("loop")
	VMULPS(Mem{Base: src, Index: at, Scale: 1}, x, z)
	VMOVUPS(z, Mem{Base: dst, Index: at, Scale: 1})
	ADDQ(Imm(64), at)
	Label("test")
	CMPQ(at, end)
	JL(LabelRef("loop"))
	TESTQ(cols, cols)
	JZ(LabelRef("next"))
	VMULPS_Z(Mem{Base: src, Index: at, Scale: 1}, x, k, z)
	VMOVUPS(z, k, Mem{Base: dst, Index: at, Scale: 1})
	Label("next")
	ADDQ(dld, dst)
	ADDQ(sld, src)
	ADDQ(fstep, f)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func dotAVX512() {
	begin("attnDotAVX512", "func(dst, a *float32, lda int, b *float32, ldb, rows, cols int)", "attnDotAVX512 is attnOps.dot with AVX-512.")
	dst, a, b := arg("dst"), arg("a"), arg("b")
	lda, ldb := stride("lda"), stride("ldb")
	rows, cols := arg("rows"), arg("cols")
	k := tailMask(cols)
	end := GP64()
	MOVQ(cols, end)
	SHRQ(U8(4), end)
	SHLQ(U8(6), end)
	at := GP64()
	Label("row")
	sum, z, y := ZMM(), ZMM(), ZMM()
	VPXORD(sum, sum, sum)
	XORQ(at, at)
	JMP(LabelRef("test"))
	Label("loop")
	VMOVUPS(Mem{Base: a, Index: at, Scale: 1}, z)
	VFMADD231PS(Mem{Base: b, Index: at, Scale: 1}, z, sum)
	ADDQ(Imm(64), at)
	Label("test")
	CMPQ(at, end)
	JL(LabelRef("loop"))
	VMOVUPS_Z(Mem{Base: a, Index: at, Scale: 1}, k, z)
	VMOVUPS_Z(Mem{Base: b, Index: at, Scale: 1}, k, y)
	VFMADD231PS(y, z, sum)
	fold(sum, func(a, b, c Op) { VADDPS(a, b, c) })
	VMOVSS(sum.AsX(), Mem{Base: dst})
	ADDQ(Imm(4), dst)
	ADDQ(lda, a)
	ADDQ(ldb, b)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
