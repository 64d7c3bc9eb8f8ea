package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileAVX512 emits a tile of rows x 32, two registers per row, of floats or of pairs.
func tileAVX512(c *build.Context, rows int, pairs bool) {
	set, args, mul, note := "AVX512", tileArgs, c.VFMADD231PS, "Strides are in elements. Columns outside mask of in and out are not accessed; those of b are."
	if pairs {
		set, mul = "BF16", func(ops ...operand.Op) { dot(c, ops...) }
		args = strings.TrimSuffix(tileArgs, ")") + ", half *uint16, ldhalf int)"
		note += "\nElements of a and b are pairs of bfloat16, x = (x1, x0), and fma(x, y, sum) is fma(x1, y1, fma(x0, y0, sum)),\nwhere x0 is the upper half of a word and subnormal numbers are 0. If half is not nil, half[r*ldhalf+c] is sum\nrounded to bfloat16, and out stays as it is."
	}
	begin(c, fmt.Sprintf("tile%sx%d", set, rows), args, tileComment(set, rows, 14, 32, note)...)

	mask := load(c, "mask")
	m := [2]reg.OpmaskVirtual{c.K(), c.K()}
	c.KMOVW(mask.As32(), m[0])
	c.SHRQ(operand.Imm(16), mask)
	c.KMOVW(mask.As32(), m[1])

	acc := make([][2]reg.VecVirtual, rows)
	for r := range acc {
		acc[r] = [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
	}
	in := load(c, "in")
	c.TESTQ(in, in)
	c.JZ(operand.LabelRef("zero"))
	ps := newStrided(c, in, loadBytes(c, "ldin"), rows)
	for r := range acc {
		for h := range 2 {
			p := ps.at(r)
			p.Disp = 64 * h
			c.VMOVUPS_Z(p, m[h], acc[r][h])
		}
	}
	// Prefetch the sums of the next tile in the row.
	for r := range acc {
		for h := range 2 {
			p := ps.at(r)
			p.Disp = 128 + 64*h
			c.PREFETCHT0(p)
		}
	}
	c.JMP(operand.LabelRef("begin"))
	c.Label("zero")
	out, ldout := load(c, "out"), loadBytes(c, "ldout")
	if pairs {
		half, ldhalf := load(c, "half"), loadHalves(c, "ldhalf")
		c.TESTQ(half, half)
		c.CMOVQNE(half, out)
		c.CMOVQNE(ldhalf, ldout)
	}
	po := newStrided(c, out, ldout, rows)
	for r := range acc {
		for h := range 2 {
			p := po.at(r)
			p.Disp = 64 * h
			c.PREFETCHT0(p)
			c.VPXORD(acc[r][h], acc[r][h], acc[r][h])
		}
	}
	c.Label("begin")

	multiply(c, acc, c.ZMM, mul, prefetchAVX512)

	c.Label("store")
	if pairs {
		half := load(c, "half")
		c.TESTQ(half, half)
		c.JNZ(operand.LabelRef("half"))
	}
	po = newStrided(c, load(c, "out"), loadBytes(c, "ldout"), rows)
	add := load(c, "add")
	c.TESTQ(add, add)
	c.JZ(operand.LabelRef("plain"))
	for r := range acc {
		for h := range 2 {
			p := po.at(r)
			p.Disp = 64 * h
			old := c.ZMM()
			c.VMOVUPS_Z(p, m[h], old)
			c.VADDPS(old, acc[r][h], acc[r][h])
		}
	}
	c.Label("plain")
	for r := range acc {
		for h := range 2 {
			p := po.at(r)
			p.Disp = 64 * h
			c.VMOVUPS(acc[r][h], m[h], p)
		}
	}
	c.VZEROUPPER()
	c.RET()
	if pairs {
		c.Label("half")
		po := newStrided(c, load(c, "half"), loadHalves(c, "ldhalf"), rows)
		all := c.K()
		c.KMOVD(load(c, "mask").As32(), all)
		for r := range acc {
			y := c.ZMM()
			round(c, acc[r][0], acc[r][1], y)
			c.VMOVDQU16(y, all, po.at(r))
		}
		c.VZEROUPPER()
		c.RET()
	}
}

// prefetchAVX512 is the base-2 logarithm of the prefetch distance in rows of b.
const prefetchAVX512 = 4
