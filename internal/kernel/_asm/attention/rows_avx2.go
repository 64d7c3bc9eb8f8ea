package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// constantsAVX2 are in memory, a vector each, because AVX2 has few registers.
var constantsAVX2 []uint32

// memory returns a vector of 8 times x.
func memory(bits uint32) Mem {
	i := 0
	for i < len(constantsAVX2) && constantsAVX2[i] != bits {
		i++
	}
	if i == len(constantsAVX2) {
		constantsAVX2 = append(constantsAVX2, bits)
	}
	return NewDataAddr(Symbol{Name: "attnConstants", Static: true}, 32*i)
}

func memoryFloat(x float32) Mem { return memory(math.Float32bits(x)) }

// dataAVX2 writes the read-only data of the AVX2 functions.
func dataAVX2() {
	GLOBL("attnConstants", attr.RODATA|attr.NOPTR)
	for i, c := range constantsAVX2 {
		for j := range 8 {
			DATA(32*i+4*j, U32(c))
		}
	}
	GLOBL("attnLanes", attr.RODATA|attr.NOPTR) // 8 lanes of 0, 8 of all bits, 8 of 0
	for i := range 24 {
		v := uint32(0)
		if i/8 == 1 {
			v = math.MaxUint32
		}
		DATA(4*i, U32(v))
	}
}

// exp2AVX2 replaces each of xs by 2^x like exp2, but flushes results below 2^-126 to 0. n and p are
// scratch of the same length.
func exp2AVX2(xs, n, p []Register) {
	for i, x := range xs {
		// The order of operands preserves NaN.
		VMOVUPS(memoryFloat(-127), p[i])
		VMAXPS(x, p[i], x)
		VMOVUPS(memoryFloat(128), p[i])
		VMINPS(x, p[i], x)
		VROUNDPS(Imm(1), x, n[i])
		VSUBPS(n[i], x, x)
		VMOVUPS(memoryFloat(exp2C[len(exp2C)-1]), p[i])
	}
	for j := len(exp2C) - 2; j >= -1; j-- {
		c := float32(1)
		if j >= 0 {
			c = exp2C[j]
		}
		for i, x := range xs {
			VFMADD213PS(memoryFloat(c), x, p[i])
		}
	}
	for i, x := range xs {
		VCVTPS2DQ(n[i], n[i])
		VPADDD(memory(127), n[i], n[i])
		VPSLLD(Imm(23), n[i], n[i])
		VMULPS(n[i], p[i], x)
	}
}

// foldQuadAVX2 reduces the lanes of x[r] with op into lane r of x[0].
func foldQuadAVX2(x []Register, op func(a, b, c Op)) {
	defer scope()()
	t := ymm().(VecPhysical).AsX()
	var l [quad]Register
	for r := range l {
		l[r] = x[r].(VecPhysical).AsX()
		VEXTRACTF128(Imm(1), x[r], t)
		op(t, l[r], l[r])
	}
	pair := func(a, b Register) {
		VSHUFPS(Imm(0x88), b, a, t)
		VSHUFPS(Imm(0xdd), b, a, a)
		op(t, a, a)
	}
	pair(l[0], l[1])
	pair(l[2], l[3])
	pair(l[0], l[2])
}

func softmaxAVX2() {
	defer scope()()
	lanes = 8
	begin("attnSoftmaxAVX2", "func(s *float32, ld, rows int, lo, hi *int32, c0, c1 int, top, sum, corr *float32)", "attnSoftmaxAVX2 is attnSoftmaxGeneric with AVX2.")
	bases := AllocLocal(4 * quad)
	q := newQuadRows("s")
	row := GP64()
	four := func(name string) Mem { return Mem{Base: arg(name), Index: row, Scale: 4} }
	XORQ(row, row)

	Label("row")
	release := scope()
	inf, zero := ymm(), ymm()
	VMOVUPS(memoryFloat(float32(math.Inf(-1))), inf)
	VXORPS(zero, zero, zero)
	q.prepare(row, zero, []Register{inf}, "empty")
	m := ymms(quad)
	for _, z := range m {
		VMOVUPS(inf, z)
	}
	from := GP64()
	MOVQ(q.at[0], from)
	q.each("max", func() {
		for r := range quad {
			VMAXPS(q.vector(0, r), m[r], m[r])
		}
	})
	q.goTo(from)
	foldQuadAVX2(m, func(a, b, c Op) { VMAXPS(a, b, c) })
	x := func(r Register) Register { return r.(VecPhysical).AsX() }
	VMOVUPS(four("top"), x(m[1]))
	VMAXPS(x(m[1]), x(m[0]), x(m[0]))
	VMOVUPS(x(m[0]), four("top"))
	// Subtract 0 if nothing was visible so far.
	VCMPPS(Imm(4), x(inf), x(m[0]), x(m[2])) // not equal
	VANDPS(x(m[2]), x(m[0]), x(m[0]))
	VMOVUPS(x(m[0]), bases)
	VSUBPS(x(m[0]), x(m[1]), x(m[1]))
	exp2AVX2(m[1:2], m[2:3], m[3:4])
	VMOVUPS(x(m[1]), four("corr"))
	release()

	t, y, n, p := ymms(quad), ymms(quad), ymms(quad), ymms(quad)
	for _, z := range t {
		VXORPS(z, z, z)
	}
	q.each("exp", func() {
		for r := range quad {
			VBROADCASTSS(bases.Offset(4*r), p[r])
			VMOVUPS(q.vector(0, r), y[r])
			VSUBPS(p[r], y[r], y[r])
		}
		exp2AVX2(y, n, p)
		for r := range quad {
			VMOVUPS(y[r], q.vector(0, r))
			VADDPS(y[r], t[r], t[r])
		}
	})
	release()
	t = ymms(quad)
	foldQuadAVX2(t, func(a, b, c Op) { VADDPS(a, b, c) })
	VMOVUPS(four("sum"), x(t[1]))
	VMOVUPS(four("corr"), x(t[2]))
	VFMADD231PS(x(t[1]), x(t[2]), x(t[0]))
	VMOVUPS(x(t[0]), four("sum"))

	Label("next")
	q.next()
	ADDQ(Imm(quad), row)
	CMPQ(row, argAt("rows"))
	JL(LabelRef("row"))
	VZEROUPPER()
	RET()

	Label("empty")
	VXORPS(t[0], t[0], t[0])
	q.fill("none", -1, stride("c0"), stride("c1"), t[:1])
	VMOVUPS(memoryFloat(1), t[0])
	VMOVUPS(x(t[0]), four("corr"))
	JMP(LabelRef("next"))
}

func gradientAVX2() {
	defer scope()()
	lanes = 8
	begin("attnGradientAVX2", "func(p, dp *float32, ld, rows int, lo, hi *int32, c0, c1 int, lse, d *float32)", "attnGradientAVX2 is attnGradientGeneric with AVX2.")
	q := newQuadRows("p", "dp")
	row := GP64()
	XORQ(row, row)

	Label("row")
	release := scope()
	inf, zero := ymm(), ymm()
	VMOVUPS(memoryFloat(float32(math.Inf(-1))), inf)
	VXORPS(zero, zero, zero)
	q.prepare(row, zero, []Register{inf, zero}, "empty")
	release()
	lse, d := arg("lse"), arg("d")
	y, n, p := ymms(quad), ymms(quad), ymms(quad)
	q.each("exp", func() {
		defer scope()()
		for r := range quad {
			VBROADCASTSS(Mem{Base: lse, Index: row, Scale: 4, Disp: 4 * r}, p[r])
			VMOVUPS(q.vector(0, r), y[r])
			VSUBPS(p[r], y[r], y[r])
		}
		exp2AVX2(y, n, p)
		for r := range quad {
			VBROADCASTSS(Mem{Base: d, Index: row, Scale: 4, Disp: 4 * r}, n[r])
			VMOVUPS(q.vector(1, r), p[r])
			VSUBPS(n[r], p[r], p[r])
			VMOVUPS(y[r], q.vector(0, r))
			VMULPS(y[r], p[r], p[r])
			VMOVUPS(p[r], q.vector(1, r))
		}
	})

	Label("next")
	q.next()
	ADDQ(Imm(quad), row)
	CMPQ(row, argAt("rows"))
	JL(LabelRef("row"))
	VZEROUPPER()
	RET()

	Label("empty")
	VXORPS(y[0], y[0], y[0])
	q.fill("none", -1, stride("c0"), stride("c1"), []Register{y[0], y[0]})
	JMP(LabelRef("next"))
}

func scaleAVX2() {
	defer scope()()
	lanes = 8
	begin("attnScaleAVX2", "func(dst *float32, dld int, src *float32, sld, rows, cols int, f *float32, fstep int)", "attnScaleAVX2 is attnScaleGeneric with AVX2, for a multiple of 8 columns.")
	dst, src, f := arg("dst"), arg("src"), arg("f")
	dld, sld, fstep := stride("dld"), stride("sld"), stride("fstep")
	rows, end := arg("rows"), stride("cols")
	at := GP64()
	Label("row")
	x, z := ymm(), ymm()
	VBROADCASTSS(Mem{Base: f}, x)
	XORQ(at, at)
	Label("loop")
	VMULPS(Mem{Base: src, Index: at, Scale: 1}, x, z)
	VMOVUPS(z, Mem{Base: dst, Index: at, Scale: 1})
	ADDQ(Imm(32), at)
	CMPQ(at, end)
	JL(LabelRef("loop"))
	ADDQ(dld, dst)
	ADDQ(sld, src)
	ADDQ(fstep, f)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func dotAVX2() {
	defer scope()()
	lanes = 8
	begin("attnDotAVX2", "func(dst, a *float32, lda int, b *float32, ldb, rows, cols int)", "attnDotAVX2 is attnDotGeneric with AVX2, for a multiple of 8 columns.")
	dst, a, b := arg("dst"), arg("a"), arg("b")
	lda, ldb := stride("lda"), stride("ldb")
	rows, end := arg("rows"), stride("cols")
	at := GP64()
	Label("row")
	sum, z := ymm(), ymm()
	half := z.(VecPhysical).AsX()
	VXORPS(sum, sum, sum)
	XORQ(at, at)
	Label("loop")
	VMOVUPS(Mem{Base: a, Index: at, Scale: 1}, z)
	VFMADD231PS(Mem{Base: b, Index: at, Scale: 1}, z, sum)
	ADDQ(Imm(32), at)
	CMPQ(at, end)
	JL(LabelRef("loop"))
	low := sum.(VecPhysical).AsX()
	VEXTRACTF128(Imm(1), sum, half)
	VADDPS(half, low, low)
	VMOVHLPS(low, low, half)
	VADDPS(half, low, low)
	VMOVSHDUP(low, half)
	VADDSS(half, low, low)
	VMOVSS(low, Mem{Base: dst})
	ADDQ(Imm(4), dst)
	ADDQ(lda, a)
	ADDQ(ldb, b)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
