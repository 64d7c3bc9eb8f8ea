package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// foldQuad reduces the lanes of x[r] with op into the four lanes of group r of x[0].
func foldQuad(x []VecPhysical, op func(a, b, c Op)) {
	defer scope()()
	t := zmm()
	pair := func(a, b VecPhysical, even, odd uint64) {
		VSHUFF32X4(Imm(even), b, a, t)
		VSHUFF32X4(Imm(odd), b, a, a)
		op(t, a, a)
	}
	pair(x[0], x[1], 0x44, 0xee)
	pair(x[2], x[3], 0x44, 0xee)
	pair(x[0], x[2], 0x88, 0xdd)
	for _, imm := range []uint64{0x4e, 0xb1} {
		VSHUFPS(Imm(imm), x[0], x[0], t)
		op(t, x[0], x[0])
	}
}

// spread loads four numbers, each into a group of four lanes; scratch is a vector.
func spread(name string, row GPVirtual, scratch VecPhysical) VecPhysical {
	p, z := arg(name), zmm()
	VMOVUPS(NewDataAddr(Symbol{Name: "attnGroups", Static: true}, 0), scratch)
	VBROADCASTF32X4(Mem{Base: p, Index: row, Scale: 4}, z)
	VPERMPS(z, scratch, z)
	return z
}

// gather stores the numbers that spread loads.
func gather(z VecPhysical, name string, row GPVirtual, k OpmaskVirtual) {
	defer scope()()
	p, t := arg(name), zmm()
	VCOMPRESSPS(z, k, t)
	VMOVUPS(t.AsX(), Mem{Base: p, Index: row, Scale: 4})
}

func clear() VecPhysical {
	z := zmm()
	VPXORD(z, z, z)
	return z
}

func softmaxAVX512() {
	defer scope()()
	lanes = 16
	GLOBL("attnGroups", attr.RODATA|attr.NOPTR) // the number of each lane's group of four
	for i := range 16 {
		DATA(4*i, U32(i/4))
	}
	begin("attnSoftmaxAVX512", "func(s *float32, ld, rows int, lo, hi *int32, c0, c1 int, top, sum, corr *float32)", "attnSoftmaxAVX512 is attnSoftmaxGeneric with AVX-512.")
	q := newQuadRows("s")
	row := GP64()
	c := exp2Consts()
	bits, k := GP32(), K()
	MOVL(U32(0x1111), bits)
	KMOVW(bits, k)
	XORQ(row, row)

	Label("row")
	release := scope()
	inf, zero := constant(float32(math.Inf(-1))), clear()
	q.prepare(row, zero, []Register{inf}, "empty")
	m := zmms(quad)
	for _, z := range m {
		VMOVAPS(inf, z)
	}
	from := GP64()
	MOVQ(q.at[0], from)
	q.each("max", func() {
		for r := range quad {
			VMAXPS(q.vector(0, r), m[r], m[r])
		}
	})
	q.goTo(from)
	foldQuad(m, func(a, b, c Op) { VMAXPS(a, b, c) })
	old := spread("top", row, m[1])
	VMAXPS(old, m[0], m[0])
	gather(m[0], "top", row, k)
	// Subtract 0 if nothing was visible so far.
	some := K()
	VCMPPS(Imm(4), inf, m[0], some) // not equal
	VMOVAPS_Z(m[0], some, m[0])
	VSUBPS(m[0], old, old)
	exp2([]VecPhysical{old}, c)
	gather(old, "corr", row, k)

	base := m
	for r := quad - 1; r >= 0; r-- {
		VSHUFF32X4(U8(0x55*r), m[0], m[0], base[r])
	}
	t := zmms(quad)
	for _, z := range t {
		VPXORD(z, z, z)
	}
	q.each("exp", func() {
		defer scope()()
		x := zmms(quad)
		for r := range quad {
			VMOVUPS(q.vector(0, r), x[r])
			VSUBPS(base[r], x[r], x[r])
		}
		exp2(x, c)
		for r := range quad {
			VMOVUPS(x[r], q.vector(0, r))
			VADDPS(x[r], t[r], t[r])
		}
	})
	foldQuad(t, func(a, b, c Op) { VADDPS(a, b, c) })
	sum := spread("sum", row, base[0])
	VFMADD231PS(sum, old, t[0])
	gather(t[0], "sum", row, k)
	release()

	Label("next")
	q.next()
	ADDQ(Imm(quad), row)
	CMPQ(row, argAt("rows"))
	JL(LabelRef("row"))
	VZEROUPPER()
	RET()

	Label("empty")
	q.fill("none", -1, stride("c0"), stride("c1"), []Register{clear()})
	pc := arg("corr")
	VMOVUPS(c[0].AsX(), Mem{Base: pc, Index: row, Scale: 4})
	JMP(LabelRef("next"))
}

func gradientAVX512() {
	defer scope()()
	lanes = 16
	begin("attnGradientAVX512", "func(p, dp *float32, ld, rows int, lo, hi *int32, c0, c1 int, lse, d *float32)", "attnGradientAVX512 is attnGradientGeneric with AVX-512.")
	q := newQuadRows("p", "dp")
	row := GP64()
	c := exp2Consts()
	XORQ(row, row)

	Label("row")
	inf, zero := constant(float32(math.Inf(-1))), clear()
	q.prepare(row, zero, []Register{inf, zero}, "empty")
	lse, d := zmms(quad), zmms(quad)
	for r := range quad {
		p := arg("lse")
		VBROADCASTSS(Mem{Base: p, Index: row, Scale: 4, Disp: 4 * r}, lse[r])
		p = arg("d")
		VBROADCASTSS(Mem{Base: p, Index: row, Scale: 4, Disp: 4 * r}, d[r])
	}
	q.each("exp", func() {
		defer scope()()
		x := zmms(quad)
		for r := range quad {
			VMOVUPS(q.vector(0, r), x[r])
			VSUBPS(lse[r], x[r], x[r])
		}
		exp2(x, c)
		for r := range quad {
			release := scope()
			z := zmm()
			VMOVUPS(q.vector(1, r), z)
			VSUBPS(d[r], z, z)
			VMOVUPS(x[r], q.vector(0, r))
			VMULPS(x[r], z, z)
			VMOVUPS(z, q.vector(1, r))
			release()
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
	none := clear()
	q.fill("none", -1, stride("c0"), stride("c1"), []Register{none, none})
	JMP(LabelRef("next"))
}

// finishAVX512 computes the logarithm of a mantissa m in [1,2) from the series of
// log(m/sqrt(2)) = 2 atanh((m-sqrt(2))/(m+sqrt(2))).
func finishAVX512() {
	defer scope()()
	lanes = 16
	begin("attnFinishAVX512", "func(top, sum *float32, rows int)", "attnFinishAVX512 is attnFinishGeneric with AVX-512.")
	top, sum, rows := arg("top"), arg("sum"), arg("rows")
	one, root, half, ln2 := constant(1), constant(math.Sqrt2), constant(0.5), constant(math.Ln2)
	var c []VecPhysical
	for i := range 5 {
		c = append(c, constant(float32(2*math.Log2E/float64(2*i+1))))
	}
	zero := clear()
	Label("loop")
	s, e, m, a, b, t := zmm(), zmm(), zmm(), zmm(), zmm(), zmm()
	k := K()
	VMOVUPS(Mem{Base: sum}, s)
	VCMPPS(Imm(4), zero, s, k) // not equal
	VGETEXPPS(s, e)
	VGETMANTPS(Imm(0), s, m)
	VSUBPS(root, m, a)
	VADDPS(root, m, b)
	VDIVPS(b, a, a)
	VMULPS(a, a, t)
	p := zmm()
	VMOVAPS(c[4], p)
	for i := 3; i >= 0; i-- {
		VFMADD213PS(c[i], t, p)
	}
	VFMADD213PS(half, a, p)
	VADDPS(e, p, p)
	VADDPS(Mem{Base: top}, p, p)
	VMULPS_Z(ln2, p, k, p)
	VMOVUPS(p, Mem{Base: top})
	VDIVPS_Z(s, one, k, s)
	VMOVUPS(s, Mem{Base: sum})
	ADDQ(Imm(64), top)
	ADDQ(Imm(64), sum)
	SUBQ(Imm(16), rows)
	JG(LabelRef("loop"))
	VZEROUPPER()
	RET()
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
	defer scope()()
	lanes = 16
	begin("attnScaleAVX512", "func(dst *float32, dld int, src *float32, sld, rows, cols int, f *float32, fstep int)", "attnScaleAVX512 is attnScaleGeneric with AVX-512.")
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
	x, z := zmm(), zmm()
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
	defer scope()()
	lanes = 16
	begin("attnDotAVX512", "func(dst, a *float32, lda int, b *float32, ldb, rows, cols int)", "attnDotAVX512 is attnDotGeneric with AVX-512.")
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
	sum, z, y := zmm(), zmm(), zmm()
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
