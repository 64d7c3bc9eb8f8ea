package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileAVX2 emits a full tile of rows x 16, two registers per row. Callers buffer the edges.
func tileAVX2(c *build.Context, rows int) {
	name := fmt.Sprintf("tileAVX2x%d", rows)
	begin(c, name, tileArgs, tileComment("AVX2", rows, 6, 16, "Strides are in elements. mask is ignored: all 16 columns are read and written.")...)

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

	multiply(c, acc, c.YMM, c.VFMADD231PS, 0)

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
