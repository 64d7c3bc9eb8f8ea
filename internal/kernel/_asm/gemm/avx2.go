package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileAVX2 is a tile of rows x 16 in two registers a row, whole: edges go through a buffer
// of the caller's.
func tileAVX2(c *build.Context, rows int) {
	name := fmt.Sprintf("tileAVX2x%d", rows)
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(tileArgs)
	c.Doc(strings.Split(fmt.Sprintf(tileDoc, name, rows, 16, "Strides are in elements. mask is not looked at: all 16 columns are read and written."), "\n")...)
	c.Pragma("noescape")

	acc := make([][2]reg.VecVirtual, rows)
	for r := range acc {
		acc[r] = [2]reg.VecVirtual{c.YMM(), c.YMM()}
	}
	in := load(c, "in")
	c.TESTQ(in, in)
	c.JZ(operand.LabelRef("zero"))
	ps := newStrided(c, in, loadBytes(c, "ldin"), rows)
	for r := range acc {
		for h := range 2 {
			p := ps.at(r)
			p.Disp = 32 * h
			c.VMOVUPS(p, acc[r][h])
		}
	}
	c.JMP(operand.LabelRef("begin"))
	c.Label("zero")
	for r := range acc {
		for h := range 2 {
			c.VXORPS(acc[r][h], acc[r][h], acc[r][h])
		}
	}
	c.Label("begin")
	po := newStrided(c, load(c, "out"), loadBytes(c, "ldout"), rows)
	for r := range acc {
		c.PREFETCHT0(po.at(r))
	}

	a, si, sk, b := load(c, "a"), loadBytes(c, "si"), loadBytes(c, "sk"), load(c, "b")
	pa := newStrided(c, a, si, rows)
	n := load(c, "k")
	pf, pfstep := load(c, "pf"), loadBytes(c, "pfstep")
	const unroll = 4
	sb := loadBytes(c, "sb")
	pb := newStrided(c, b, sb, unroll)
	step := func(u int) {
		bv := [2]reg.VecVirtual{c.YMM(), c.YMM()}
		for h := range 2 {
			p := pb.at(u)
			p.Disp = 32 * h
			c.VMOVUPS(p, bv[h])
		}
		for r := range acc {
			av := c.YMM()
			c.VBROADCASTSS(pa.at(r), av)
			for h := range 2 {
				c.VFMADD231PS(av, bv[h], acc[r][h])
			}
		}
		pa.advance(c, sk)
	}
	c.SUBQ(operand.Imm(unroll), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("loop")
	for u := range unroll {
		step(u)
	}
	c.PREFETCHT1(operand.Mem{Base: pf})
	c.ADDQ(pfstep, pf)
	c.LEAQ(operand.Mem{Base: b, Index: sb, Scale: unroll}, b)
	c.SUBQ(operand.Imm(unroll), n)
	c.JGE(operand.LabelRef("loop"))
	c.Label("tail")
	c.ADDQ(operand.Imm(unroll), n)
	c.JZ(operand.LabelRef("store"))
	c.Label("one")
	step(0)
	c.ADDQ(sb, b)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("one"))

	c.Label("store")
	po = newStrided(c, load(c, "out"), loadBytes(c, "ldout"), rows)
	add := load(c, "add")
	c.TESTQ(add, add)
	c.JZ(operand.LabelRef("plain"))
	for r := range acc {
		for h := range 2 {
			p := po.at(r)
			p.Disp = 32 * h
			c.VADDPS(p, acc[r][h], acc[r][h])
		}
	}
	c.Label("plain")
	for r := range acc {
		for h := range 2 {
			p := po.at(r)
			p.Disp = 32 * h
			c.VMOVUPS(acc[r][h], p)
		}
	}
	c.VZEROUPPER()
	c.RET()
}

// transposeAVX2 is transposeAVX512 with 8 rows.
func transposeAVX2(c *build.Context) {
	c.Function("transposeAVX2")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, ldd int, src *float32, lds int, n int)")
	c.Doc("transposeAVX2 sets dst[c*ldd+r] = src[r*lds+c] for r in [0, 8) and c in [0, n);", "n is a multiple of 4.")
	c.Pragma("noescape")
	src, lds := load(c, "src"), loadBytes(c, "lds")
	ps := newStrided(c, src, lds, 8)
	dst, ldd, n := load(c, "dst"), loadBytes(c, "ldd"), load(c, "n")
	ldd3 := c.GP64()
	c.LEAQ(operand.Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)
	c.SUBQ(operand.Imm(4), n)
	c.JL(operand.LabelRef("done"))
	c.Label("loop")
	var r [4]reg.VecVirtual
	for i := range r {
		r[i] = c.YMM()
		c.VMOVUPS(ps.at(i), r[i].AsX())
		c.VINSERTF128(operand.Imm(1), ps.at(4+i), r[i], r[i])
	}
	var t [4]reg.VecVirtual
	for i := range t {
		t[i] = c.YMM()
	}
	c.VUNPCKLPS(r[1], r[0], t[0])
	c.VUNPCKHPS(r[1], r[0], t[1])
	c.VUNPCKLPS(r[3], r[2], t[2])
	c.VUNPCKHPS(r[3], r[2], t[3])
	c.VUNPCKLPD(t[2], t[0], r[0])
	c.VUNPCKHPD(t[2], t[0], r[1])
	c.VUNPCKLPD(t[3], t[1], r[2])
	c.VUNPCKHPD(t[3], t[1], r[3])
	c.VMOVUPS(r[0], operand.Mem{Base: dst})
	c.VMOVUPS(r[1], operand.Mem{Base: dst, Index: ldd, Scale: 1})
	c.VMOVUPS(r[2], operand.Mem{Base: dst, Index: ldd, Scale: 2})
	c.VMOVUPS(r[3], operand.Mem{Base: dst, Index: ldd3, Scale: 1})
	c.LEAQ(operand.Mem{Base: dst, Index: ldd, Scale: 4}, dst)
	ps.advance(c, operand.Imm(16))
	c.SUBQ(operand.Imm(4), n)
	c.JGE(operand.LabelRef("loop"))
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}

// peakAVX2 does nothing but fused multiply-adds in registers.
func peakAVX2(c *build.Context) {
	c.Function("peakAVX2")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(n int)")
	c.Doc("peakAVX2 does n times 12 independent fused multiply-adds on 8 floats each.")
	n := load(c, "n")
	var acc [12]reg.VecVirtual
	for i := range acc {
		acc[i] = c.YMM()
		c.VXORPS(acc[i], acc[i], acc[i])
	}
	x := c.YMM()
	c.VXORPS(x, x, x)
	c.Label("loop")
	for i := range acc {
		c.VFMADD231PS(x, x, acc[i])
	}
	c.DECQ(n)
	c.JNZ(operand.LabelRef("loop"))
	c.VZEROUPPER()
	c.RET()
}
