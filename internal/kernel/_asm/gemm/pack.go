package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copyAVX512 copies rows of up to 16*regs columns under a mask, from float32 or, by kind, BF16 or
// F16: several rows at a time, to overlap their cache misses, with a prefetch 16 rows ahead.
func copyAVX512(c *build.Context, regs int, kind string) {
	name, elem, size := fmt.Sprintf("copyAVX512x%d", 16*regs), "float32", 4
	if kind != "" {
		name, elem, size = name+kind, "uint16", 2
	}
	begin(c, name, fmt.Sprintf("func(dst *float32, ldd int, src *%s, lds, rows int, mask uint64)", elem),
		fmt.Sprintf("%s sets dst[r*ldd+c] = src[r*lds+c] for r in [0, rows) and c below %d in mask. rows is not 0.", name, 16*regs))

	mask := load(c, "mask")
	m := make([]reg.OpmaskVirtual, regs)
	for h := range m {
		m[h] = c.K()
		c.KMOVW(mask.As32(), m[h])
		c.SHRQ(operand.Imm(16), mask)
	}
	dst, ldd, src, rows := load(c, "dst"), loadBytes(c, "ldd"), load(c, "src"), load(c, "rows")
	lds := load(c, "lds")
	c.SHLQ(operand.Imm(uint64(size/2)), lds)
	const unroll = 4
	ps, pd := newStrided(c, src, lds, unroll), newStrided(c, dst, ldd, unroll)
	ahead := c.GP64()
	c.MOVQ(lds, ahead)
	c.SHLQ(operand.Imm(4), ahead)
	c.ADDQ(src, ahead)
	pa := newStrided(c, ahead, lds, unroll)
	step := func(n int) {
		var v [unroll][2]reg.VecVirtual
		for r := range n {
			for h := range m {
				v[r][h] = c.ZMM()
				p := ps.at(r)
				p.Disp = 16 * size * h
				switch kind {
				case "F16":
					c.VCVTPH2PS_Z(p, m[h], v[r][h])
				case "BF16":
					c.VPMOVZXWD_Z(p, m[h], v[r][h])
					c.VPSLLD(operand.Imm(16), v[r][h], v[r][h])
				default:
					c.VMOVUPS_Z(p, m[h], v[r][h])
				}
			}
		}
		for r := range n {
			for h := range m {
				p := pd.at(r)
				p.Disp = 64 * h
				c.VMOVUPS(v[r][h], m[h], p)
			}
		}
	}
	c.SUBQ(operand.Imm(unroll), rows)
	c.JL(operand.LabelRef("tail"))
	c.Label("loop")
	for r := range unroll {
		p := pa.at(r)
		c.PREFETCHT0(p)
		if regs*16*size > 64 {
			p.Disp = 64
			c.PREFETCHT0(p)
		}
	}
	c.LEAQ(operand.Mem{Base: ahead, Index: lds, Scale: unroll}, ahead)
	step(unroll)
	c.LEAQ(operand.Mem{Base: src, Index: lds, Scale: unroll}, src)
	c.LEAQ(operand.Mem{Base: dst, Index: ldd, Scale: unroll}, dst)
	c.SUBQ(operand.Imm(unroll), rows)
	c.JGE(operand.LabelRef("loop"))
	c.Label("tail")
	c.ADDQ(operand.Imm(unroll), rows)
	c.JZ(operand.LabelRef("done"))
	c.Label("one")
	step(1)
	c.ADDQ(lds, src)
	c.ADDQ(ldd, dst)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("one"))
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}
