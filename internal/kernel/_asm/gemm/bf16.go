package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dot emits VDPBF16PS: in each word of ops[2], sum + x1 y1 + x0 y0 of the upper halves, then the lower
// halves, of ops[0] and ops[1].
func dot(c *build.Context, ops ...operand.Op) {
	c.Instruction(&ir.Instruction{Opcode: "VDPBF16PS", Operands: ops, Inputs: ops, Outputs: ops[2:]})
}

// round emits VCVTNE2PS2BF16: to, whose lower half is lo and upper half hi, each rounded to bfloat16. Subnormal numbers become 0.
func round(c *build.Context, lo, hi, to operand.Op) {
	ops := []operand.Op{lo, hi, to}
	c.Instruction(&ir.Instruction{Opcode: "VCVTNE2PS2BF16", Operands: ops, Inputs: ops[:2], Outputs: ops[2:]})
}

// missing are the instructions that avo and the Go assembler lack, by mandatory prefix and opcode in map 0F38, W0 (Intel SDM vol. 2).
var missing = map[string]struct{ prefix, opcode int }{
	"VDPBF16PS":      {2, 0x52}, // F3
	"VCVTNE2PS2BF16": {3, 0x72}, // F2
}

var missingLine = regexp.MustCompile(`(?m)^\t(VDPBF16PS|VCVTNE2PS2BF16)\s+Z(\d+), Z(\d+), Z(\d+)$`)

// encodeMissing replaces each of them by its bytes.
func encodeMissing(asm []byte) []byte {
	return missingLine.ReplaceAllFunc(asm, func(line []byte) []byte {
		fields := missingLine.FindSubmatch(line)[1:]
		name := string(fields[0])
		var n [3]int
		for i, s := range fields[1:] {
			n[i], _ = strconv.Atoi(string(s)) // digits
		}
		x, y, to := n[0], n[1], n[2]
		not := func(x, bit int) int { return x>>bit&1 ^ 1 }
		return fmt.Appendf(nil, "\tBYTE $0x62; BYTE $0x%02x; BYTE $0x%02x; BYTE $0x%02x; BYTE $0x%02x; BYTE $0x%02x // %s zmm%d, zmm%d, zmm%d",
			not(to, 3)<<7|not(x, 4)<<6|not(x, 3)<<5|not(to, 4)<<4|2, ^y&15<<3|4|missing[name].prefix, 0x40|not(y, 4)<<3,
			missing[name].opcode, 0xc0|to&7<<3|x&7, strings.ToLower(name), to, y, x)
	})
}

// pairRowsAVX512 interleaves two rows of up to 16*regs columns: elements of the first in the upper
// halves of words, those of the second in the lower halves.
func pairRowsAVX512(c *build.Context, regs int) {
	name := fmt.Sprintf("pairRowsAVX512x%d", 16*regs)
	begin(c, name, "func(dst *float32, ldd int, src *uint16, lds, pairs int, mask uint64)",
		fmt.Sprintf("%s sets, for p in [0, pairs) and c below %d in mask, the upper half of dst[p*ldd+c] to", name, 16*regs),
		"src[2*p*lds+c] and the lower half to src[(2*p+1)*lds+c]. pairs is not 0.")
	mask := load(c, "mask")
	m := make([]reg.OpmaskVirtual, regs)
	for h := range m {
		m[h] = c.K()
		c.KMOVW(mask.As32(), m[h])
		c.SHRQ(operand.Imm(16), mask)
	}
	dst, ldd, src, lds, n := load(c, "dst"), loadBytes(c, "ldd"), load(c, "src"), loadHalves(c, "lds"), load(c, "pairs")
	const unroll = 2
	ps, pd := newStrided(c, src, lds, 2*unroll), newStrided(c, dst, ldd, unroll)
	ahead := c.GP64()
	c.MOVQ(lds, ahead)
	c.SHLQ(operand.Imm(4), ahead)
	c.ADDQ(src, ahead)
	pa := newStrided(c, ahead, lds, 2*unroll)
	step := func(pairs int) {
		var v [unroll][2]reg.VecVirtual
		for p := range pairs {
			for h := range m {
				first, second := ps.at(2*p), ps.at(2*p+1)
				first.Disp, second.Disp = 32*h, 32*h
				hi, lo := c.ZMM(), c.ZMM()
				c.VPMOVZXWD_Z(first, m[h], hi)
				c.VPMOVZXWD_Z(second, m[h], lo)
				c.VPSLLD(operand.Imm(16), hi, hi)
				c.VPORD(lo, hi, hi)
				v[p][h] = hi
			}
		}
		for p := range pairs {
			for h := range m {
				to := pd.at(p)
				to.Disp = 64 * h
				c.VMOVUPS(v[p][h], m[h], to)
			}
		}
	}
	c.SUBQ(operand.Imm(unroll), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("loop")
	for r := range 2 * unroll {
		c.PREFETCHT0(pa.at(r))
	}
	c.LEAQ(operand.Mem{Base: ahead, Index: lds, Scale: 2 * unroll}, ahead)
	step(unroll)
	c.LEAQ(operand.Mem{Base: src, Index: lds, Scale: 2 * unroll}, src)
	c.LEAQ(operand.Mem{Base: dst, Index: ldd, Scale: unroll}, dst)
	c.SUBQ(operand.Imm(unroll), n)
	c.JGE(operand.LabelRef("loop"))
	c.Label("tail")
	c.ADDQ(operand.Imm(unroll), n)
	c.JZ(operand.LabelRef("done"))
	step(1)
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}

// transposePairsAVX512 is transpose for pairs of bfloat16, whose halves it exchanges.
func transposePairsAVX512(c *build.Context) {
	const name = "transposePairsAVX512"
	begin(c, name, "func(dst *float32, ldd int, src *uint16, lds int, n int)",
		name+" sets, for r in [0, 16) and c in [0, n), the upper half of dst[c*ldd+r] to src[r*lds+2*c] and the",
		"lower half to src[r*lds+2*c+1]; n is a multiple of 4.")
	transposeBody(c, c.ZMM, 16, loadHalves, func(v reg.VecVirtual) { c.VPROLD(operand.Imm(16), v, v) })
}

// swapPairsAVX512 copies a row of pairs and exchanges their halves.
func swapPairsAVX512(c *build.Context) {
	const name = "swapPairsAVX512"
	begin(c, name, "func(dst *float32, src *uint16, n int)",
		name+" sets, for i in [0, n), the upper half of dst[i] to src[2*i] and the lower half to src[2*i+1].")
	dst, src, n := load(c, "dst"), load(c, "src"), load(c, "n")
	c.SUBQ(operand.Imm(16), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("loop")
	v := c.ZMM()
	c.VPROLD(operand.Imm(16), operand.Mem{Base: src}, v)
	c.VMOVUPS(v, operand.Mem{Base: dst})
	c.ADDQ(operand.Imm(64), src)
	c.ADDQ(operand.Imm(64), dst)
	c.SUBQ(operand.Imm(16), n)
	c.JGE(operand.LabelRef("loop"))
	c.Label("tail")
	c.ADDQ(operand.Imm(16), n)
	c.JZ(operand.LabelRef("done"))
	ones, k, rest := c.GP32(), c.K(), c.ZMM()
	c.MOVL(operand.U32(0xffff), ones)
	c.SUBQ(operand.Imm(16), n)
	c.NEGQ(n)
	c.SHRXL(n.As32(), ones, ones)
	c.KMOVW(ones, k)
	c.VMOVUPS_Z(operand.Mem{Base: src}, k, rest)
	c.VPROLD(operand.Imm(16), rest, rest)
	c.VMOVUPS(rest, k, operand.Mem{Base: dst})
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}

// stripBF16 emits the product of 32 packed rows and 32 packed columns, eight rows at a time.
func stripBF16(c *build.Context) {
	const name, rows = "stripBF16", 8
	begin(c, name, "func(steps int, a, b *uint16, out *float32, ldout, first int)",
		name+" is stripGeneric with pairs. steps is not 0.")
	a, out, ldout, left := load(c, "a"), load(c, "out"), loadBytes(c, "ldout"), c.GP64()
	po := newStrided(c, out, ldout, rows)
	c.MOVQ(operand.U32(tileRows/rows), left)
	c.Label("rows")
	var acc [rows][2]reg.VecVirtual
	each := func(f func(v reg.VecVirtual, out operand.Mem)) {
		for r := range acc {
			for h := range 2 {
				p := po.at(r)
				p.Disp = 64 * h
				f(acc[r][h], p)
			}
		}
	}
	for r := range acc {
		acc[r] = [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
	}
	each(func(v reg.VecVirtual, _ operand.Mem) { c.VPXORD(v, v, v) })
	first := load(c, "first")
	c.TESTQ(first, first)
	c.JNZ(operand.LabelRef("begin"))
	each(func(v reg.VecVirtual, out operand.Mem) { c.VMOVUPS(out, v) })
	c.Label("begin")
	at, b, steps := c.GP64(), load(c, "b"), load(c, "steps")
	c.MOVQ(a, at)
	c.Label("step")
	for pair := range 16 {
		y := [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
		for h := range y {
			c.VMOVUPS(operand.Mem{Base: b, Disp: 64*pair + 1024*h}, y[h])
		}
		for r := range acc {
			x := c.ZMM()
			c.VPBROADCASTD(operand.Mem{Base: at, Disp: 64*r + 4*pair}, x)
			for h := range y {
				dot(c, x, y[h], acc[r][h])
			}
		}
	}
	c.ADDQ(operand.U32(2048), at)
	c.ADDQ(operand.U32(2048), b)
	c.DECQ(steps)
	c.JNZ(operand.LabelRef("step"))
	each(func(v reg.VecVirtual, out operand.Mem) { c.VMOVUPS(v, out) })
	c.ADDQ(operand.U32(64*rows), a)
	for range rows {
		po.advance(c, ldout)
	}
	c.DECQ(left)
	c.JNZ(operand.LabelRef("rows"))
	c.VZEROUPPER()
	c.RET()
}

// tileRows is the number of rows and columns of a packed strip.
const tileRows = 32
