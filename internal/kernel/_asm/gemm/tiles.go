package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// loadHalves loads a count of 16-bit numbers, in bytes.
func loadHalves(c *build.Context, name string) reg.GPVirtual {
	r := load(c, name)
	c.SHLQ(operand.Imm(1), r)
	return r
}

// copyTilesAVX512 copies rows into tiles, two rows at a time.
func copyTilesAVX512(c *build.Context) {
	begin(c, "copyTilesAVX512", "func(dst, src *uint16, ld, rows, steps int)",
		"copyTilesAVX512 sets dst[s*1024+r*32+k] = src[r*ld+s*32+k] for r in [0, rows), s in [0, steps)",
		"and k in [0, 32). rows and steps are not 0.")
	dst, src, ld, rows := load(c, "dst"), load(c, "src"), loadHalves(c, "ld"), load(c, "rows")
	c.Label("row")
	d, s, n := c.GP64(), c.GP64(), load(c, "steps")
	c.MOVQ(dst, d)
	c.MOVQ(src, s)
	c.Label("step")
	v := c.ZMM()
	c.VMOVUPS(operand.Mem{Base: s}, v)
	c.VMOVUPS(v, operand.Mem{Base: d})
	c.ADDQ(operand.Imm(64), s)
	c.ADDQ(operand.U32(2048), d)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("step"))
	c.ADDQ(operand.Imm(64), dst)
	c.ADDQ(ld, src)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("row"))
	c.VZEROUPPER()
	c.RET()
}

// pairTilesAVX512 interleaves two rows: elements of the first in the lower halves of 32-bit words,
// those of the second in the upper halves.
func pairTilesAVX512(c *build.Context) {
	begin(c, "pairTilesAVX512", "func(dst, src *uint16, ld, apart, pairs int, mask uint64)",
		"pairTilesAVX512 sets, for p in [0, pairs) and c in [0, 32),",
		"",
		"	dst[p/16*1024+c/16*512+p%16*32+c%16*2+i] = src[p*ld+i*apart+c], i = 0, 1",
		"",
		"for columns c in mask and 0 for others. pairs is not 0.")
	mask := load(c, "mask")
	m := [2]reg.OpmaskVirtual{c.K(), c.K()}
	c.KMOVW(mask.As32(), m[0])
	c.SHRQ(operand.Imm(16), mask)
	c.KMOVW(mask.As32(), m[1])
	dst, src, ld, apart, pairs := load(c, "dst"), load(c, "src"), loadHalves(c, "ld"), loadHalves(c, "apart"), load(c, "pairs")
	left, second := c.GP64(), c.GP64() // pairs, of 16 in a tile; the second row
	c.LEAQ(operand.Mem{Base: src, Index: apart, Scale: 1}, second)
	c.MOVQ(operand.U32(16), left)
	c.Label("pair")
	for h := range 2 {
		lo, hi := c.ZMM(), c.ZMM()
		c.VPMOVZXWD_Z(operand.Mem{Base: src, Disp: 32 * h}, m[h], lo)
		c.VPMOVZXWD_Z(operand.Mem{Base: second, Disp: 32 * h}, m[h], hi)
		c.VPSLLD(operand.Imm(16), hi, hi)
		c.VPORD(lo, hi, hi)
		c.VMOVUPS(hi, operand.Mem{Base: dst, Disp: 1024 * h})
	}
	c.PREFETCHT0(operand.Mem{Base: src, Index: ld, Scale: 8})
	c.PREFETCHT0(operand.Mem{Base: second, Index: ld, Scale: 8})
	c.ADDQ(ld, second)
	c.ADDQ(ld, src)
	c.ADDQ(operand.Imm(64), dst)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("same"))
	c.MOVQ(operand.U32(16), left)
	c.ADDQ(operand.U32(1024), dst)
	c.Label("same")
	c.DECQ(pairs)
	c.JNZ(operand.LabelRef("pair"))
	c.VZEROUPPER()
	c.RET()
}

// transposeTilesAVX512 transposes pairs of bfloat16, one tile at a time.
func transposeTilesAVX512(c *build.Context) {
	begin(c, "transposeTilesAVX512", "func(dst, src *uint16, ld, step, steps int)",
		"transposeTilesAVX512 sets dst[s*1024+p*32+2*r+i] = src[s*step+r*ld+2*p+i] for s in [0, steps),",
		"r and p in [0, 16) and i = 0, 1. steps is not 0.")
	dst, src, ld, step, steps := load(c, "dst"), load(c, "src"), loadHalves(c, "ld"), loadHalves(c, "step"), load(c, "steps")
	ps := newStrided(c, src, ld, 16)
	c.Label("step")
	for col := 0; col < 16; col += 4 {
		r := [4]reg.VecVirtual{c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()}
		columns(c, c.ZMM, r, func(i int) operand.Mem {
			p := ps.at(i)
			p.Disp = 4 * col
			return p
		})
		for i := range r {
			c.VMOVUPS(r[i], operand.Mem{Base: dst, Disp: 64 * (col + i)})
		}
	}
	ps.advance(c, step)
	c.ADDQ(operand.U32(2048), dst)
	c.DECQ(steps)
	c.JNZ(operand.LabelRef("step"))
	c.VZEROUPPER()
	c.RET()
}
