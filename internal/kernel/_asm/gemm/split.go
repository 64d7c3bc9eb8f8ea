package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// splitAVX512 writes the three bfloat16 parts of float32 numbers: each is the rest that the parts before leave, which is
// exact, rounded to nearest even. A part that is not finite has no rest.
func splitAVX512(c *build.Context) {
	begin(c, "splitAVX512", "func(dst *uint16, ldd, plane int, src *float32, lds, rows, cols int)",
		"splitAVX512 sets dst[r*ldd+c], dst[plane+r*ldd+c] and dst[2*plane+r*ldd+c] to the parts of src[r*lds+c]",
		"(splitGeneric). It writes multiples of 16 columns. rows and cols are not 0.")
	dst, ldd, plane := load(c, "dst"), loadHalves(c, "ldd"), loadHalves(c, "plane")
	src, lds, rows, cols := load(c, "src"), loadBytes(c, "lds"), load(c, "rows"), load(c, "cols")
	word := func(x uint32) reg.VecVirtual {
		v, g := c.ZMM(), c.GP32()
		c.MOVL(operand.U32(x), g)
		c.VPBROADCASTD(g, v)
		return v
	}
	one, half, top, quiet, exponent := word(1), word(0x7fff), word(0xffff0000), word(0x400000), word(0x7f800000)
	pd, ps, left := c.GP64(), c.GP64(), c.GP64()
	full := c.K()
	c.KXNORW(full, full, full)
	columns := func(load operand.Op) {
		x, rest, r, part := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
		nan, finite := c.K(), c.K()
		c.PREFETCHT0(operand.Mem{Base: ps, Index: lds, Scale: 1})
		c.VMOVUPS_Z(operand.Mem{Base: ps}, load, x)
		to := c.GP64()
		c.MOVQ(pd, to)
		for k := range 3 {
			c.VPSRLD(operand.U8(16), x, r)
			c.VPANDD(one, r, r)
			c.VPADDD(x, r, r)
			c.VPADDD(half, r, r)
			if k == 0 {
				c.VCMPPS(operand.U8(3), x, x, nan)
				c.VPORD(quiet, x, nan, r)
			}
			c.VPSRLD(operand.U8(16), r, rest)
			c.VPMOVDW(rest, operand.Mem{Base: to})
			if k == 2 {
				break
			}
			c.VPANDD(top, r, part)
			c.VPANDD(exponent, part, rest)
			c.VPCMPUD(operand.U8(1), exponent, rest, finite) // below: neither infinite nor NaN
			next := c.ZMM()
			c.VSUBPS_Z(part, x, finite, next)
			x = next
			c.ADDQ(plane, to)
		}
		c.ADDQ(operand.Imm(64), ps)
		c.ADDQ(operand.Imm(32), pd)
	}
	c.Label("row")
	c.MOVQ(dst, pd)
	c.MOVQ(src, ps)
	c.MOVQ(cols, left)
	c.SUBQ(operand.Imm(16), left)
	c.JL(operand.LabelRef("tail"))
	c.Label("columns")
	columns(full)
	c.SUBQ(operand.Imm(16), left)
	c.JGE(operand.LabelRef("columns"))
	c.Label("tail")
	c.ADDQ(operand.Imm(16), left)
	c.JEQ(operand.LabelRef("next"))
	mask, ones, tail := c.GP64(), c.GP64(), c.K()
	c.MOVQ(operand.I64(-1), ones)
	c.SHLXQ(left, ones, mask)
	c.NOTQ(mask)
	c.KMOVW(mask.As32(), tail)
	columns(tail)
	c.Label("next")
	c.ADDQ(ldd, dst)
	c.ADDQ(lds, src)
	c.DECQ(rows)
	c.JNE(operand.LabelRef("row"))
	c.VZEROUPPER()
	c.RET()
}
