package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copyAVX512 copies rows of up to 16*regs columns under a mask.
func copyAVX512(c *build.Context, regs int, kind string) {
	name, elem := copyName("AVX512", 16*regs, kind)
	begin(c, name, fmt.Sprintf("func(dst *float32, ldd int, src *%s, lds, rows int, mask uint64)", elem),
		fmt.Sprintf("%s sets dst[r*ldd+c] = src[r*lds+c] for r in [0, rows) and c below %d in mask. rows is not 0.", name, 16*regs))
	mask := load(c, "mask")
	m := make([]reg.OpmaskVirtual, regs)
	lanes := make([]int, regs)
	for h := range m {
		lanes[h], m[h] = 16, c.K()
		c.KMOVW(mask.As32(), m[h])
		c.SHRQ(operand.Imm(16), mask)
	}
	copyRows(c, lanes, kind, func(h int, p operand.Mem) reg.VecVirtual {
		v := c.ZMM()
		switch kind {
		case "F16":
			c.VCVTPH2PS_Z(p, m[h], v)
		case "BF16":
			c.VPMOVZXWD_Z(p, m[h], v)
			c.VPSLLD(operand.Imm(16), v, v)
		default:
			c.VMOVUPS_Z(p, m[h], v)
		}
		return v
	}, func(h int, v reg.VecVirtual, p operand.Mem) { c.VMOVUPS(v, m[h], p) })
}

// copyAVX2 copies rows whose columns are in registers of 8, 4 or 2 lanes.
func copyAVX2(c *build.Context, lanes []int, kind string) {
	columns := 0
	for _, n := range lanes {
		columns += n
	}
	name, elem := copyName("AVX2", columns, kind)
	begin(c, name, fmt.Sprintf("func(dst *float32, ldd int, src *%s, lds, rows int, mask uint64)", elem),
		fmt.Sprintf("%s sets dst[r*ldd+c] = src[r*lds+c] for r in [0, rows) and c in [0, %d). rows is not 0, mask is ignored.", name, columns))
	copyRows(c, lanes, kind, func(h int, p operand.Mem) reg.VecVirtual {
		v := c.YMM()
		var from operand.Op = p
		to := v
		if lanes[h] < 8 {
			to = v.AsX().(reg.VecVirtual)
		}
		if lanes[h] == 2 && kind != "" {
			c.VMOVD(p, v.AsX())
			from = v.AsX()
		}
		switch {
		case kind == "F16":
			c.VCVTPH2PS(from, to)
		case kind == "BF16":
			c.VPMOVZXWD(from, to)
			c.VPSLLD(operand.Imm(16), to, to)
		case lanes[h] == 2:
			c.VMOVSD(p, v.AsX())
		default:
			c.VMOVUPS(p, to)
		}
		return v
	}, func(h int, v reg.VecVirtual, p operand.Mem) {
		switch lanes[h] {
		case 8:
			c.VMOVUPS(v, p)
		case 4:
			c.VMOVUPS(v.AsX(), p)
		case 2:
			c.VMOVSD(v.AsX(), p)
		}
	})
}

// copyName returns the name and the type of elements of a copy of float32 or, by kind, BF16 or F16.
func copyName(level string, columns int, kind string) (name, elem string) {
	if kind == "" {
		return fmt.Sprintf("copy%sx%d", level, columns), "float32"
	}
	return fmt.Sprintf("copy%sx%d%s", level, columns, kind), "uint16"
}

// copyRows emits a copy of rows whose columns are in registers with the given lanes, which read and write move: several
// rows at a time, to overlap their cache misses, with a prefetch 16 rows ahead.
func copyRows(c *build.Context, lanes []int, kind string, read func(h int, p operand.Mem) reg.VecVirtual, write func(h int, v reg.VecVirtual, p operand.Mem)) {
	size := 4
	if kind != "" {
		size = 2
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
			p := ps.at(r)
			for h := range lanes {
				v[r][h] = read(h, p)
				p.Disp += lanes[h] * size
			}
		}
		for r := range n {
			p := pd.at(r)
			for h := range lanes {
				write(h, v[r][h], p)
				p.Disp += lanes[h] * 4
			}
		}
	}
	c.SUBQ(operand.Imm(unroll), rows)
	c.JL(operand.LabelRef("tail"))
	c.Label("loop")
	for r := range unroll {
		p := pa.at(r)
		c.PREFETCHT0(p)
		if len(lanes)*lanes[0]*size > 64 {
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
