package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// splitter writes the bfloat16 parts of vectors of float32 numbers.
type splitter struct {
	c                          *build.Context
	half, top, quiet, exponent reg.VecVirtual
}

func newSplitter(c *build.Context) *splitter {
	word := func(x uint32) reg.VecVirtual {
		v, g := c.ZMM(), c.GP32()
		c.MOVL(operand.U32(x), g)
		c.VPBROADCASTD(g, v)
		return v
	}
	return &splitter{c: c, half: word(0x8000), top: word(0xffff0000), quiet: word(0x400000), exponent: word(0x7f800000)}
}

// part returns the first part of x, in the upper halves of words, and replaces x by the rest. A part that is not
// finite has no rest.
func (s *splitter) part(x reg.VecVirtual, first, last bool) reg.VecVirtual {
	c, p := s.c, s.c.ZMM()
	c.VPADDD(s.half, x, p)
	if first {
		nan := c.K()
		c.VCMPPS(operand.U8(3), x, x, nan)
		c.VPORD(s.quiet, x, nan, p)
	}
	c.VPANDD(s.top, p, p)
	if last {
		return p
	}
	if !first {
		c.VSUBPS(p, x, x)
		return p
	}
	e, finite := c.ZMM(), c.K()
	c.VPANDD(s.exponent, p, e)
	c.VPCMPUD(operand.U8(1), s.exponent, e, finite) // below: neither infinite nor NaN
	c.VSUBPS_Z(p, x, finite, x)
	return p
}

// store writes the parts of lo and hi at to: those of lo in the lower halves of words.
func (s *splitter) store(lo, hi reg.VecVirtual, parts int, to operand.Mem) {
	for k := range parts {
		l, h := s.part(lo, k == 0, k == parts-1), s.part(hi, k == 0, k == parts-1)
		s.c.VPSRLD(operand.U8(16), l, l)
		s.c.VPORD(l, h, h)
		s.c.VMOVUPS(h, to)
		to.Disp += 2048
	}
}

// splitTilesAVX512 writes the parts of float32 numbers as tiles.
func splitTilesAVX512(c *build.Context, parts int, columnsToRows bool) {
	name, index := fmt.Sprintf("splitTilesx%dAVX512", parts), "r*32+2*i"
	if columnsToRows {
		name, index = fmt.Sprintf("splitTransposedx%dAVX512", parts), "i*32+2*r"
	}
	begin(c, name, "func(dst *uint16, src *float32, ld, apart, step, steps int)",
		fmt.Sprintf("%s sets dst[(s*%d+p)*1024+%s+h] to part p of src[s*step+r*ld+h*apart+i]", name, parts, index),
		"(splitStepsGeneric) for s in [0, steps), r and i in [0, 16) and h = 0, 1. steps is not 0.")
	s := newSplitter(c)
	dst, src, ld, apart, step, steps := load(c, "dst"), load(c, "src"), loadBytes(c, "ld"), loadBytes(c, "apart"), loadBytes(c, "step"), load(c, "steps")
	if columnsToRows {
		ps := newStrided(c, src, ld, 16)
		var v [2][4]reg.VecVirtual // not of a group: avo keeps registers that are written in parts for the whole function
		for i := range 8 {
			v[i/4][i%4] = c.ZMM()
		}
		c.Label("step")
		for col := 0; col < 16; col += 4 {
			for h := range v {
				columns(c, c.ZMM, v[h], func(i int) operand.Mem {
					p := ps.at(i)
					p.Disp = 4 * col
					return p
				})
				ps.advance(c, apart)
				c.NEGQ(apart)
			}
			for i := range 4 {
				s.store(v[0][i], v[1][i], parts, operand.Mem{Base: dst, Disp: 64 * (col + i)})
			}
		}
		ps.advance(c, step)
		c.ADDQ(operand.U32(uint32(2048*parts)), dst)
	} else {
		c.Label("step")
		at, row := c.GP64(), c.GP64()
		c.MOVQ(src, at)
		c.MOVQ(operand.U32(16), row)
		c.Label("row")
		lo, hi := c.ZMM(), c.ZMM()
		c.VMOVUPS(operand.Mem{Base: at}, lo)
		c.VMOVUPS(operand.Mem{Base: at, Index: apart, Scale: 1}, hi)
		c.ADDQ(ld, at)
		s.store(lo, hi, parts, operand.Mem{Base: dst})
		c.ADDQ(operand.U32(64), dst)
		c.DECQ(row)
		c.JNZ(operand.LabelRef("row"))
		c.ADDQ(step, src)
		c.ADDQ(operand.U32(uint32(2048*parts-1024)), dst)
	}
	c.DECQ(steps)
	c.JNZ(operand.LabelRef("step"))
	c.VZEROUPPER()
	c.RET()
}
