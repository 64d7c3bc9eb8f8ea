package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowKind is how the kernel of one row multiplies.
type rowKind int

const (
	rowFloats rowKind = iota // float32
	rowWide                  // bfloat16, widened
	rowPairs                 // pairs of bfloat16
	rowTiles                 // bfloat16, widened, in the order of tiles
)

var rowNames = [...]string{"rowFloats", "rowWide", "rowPairs", "rowTiles"}

var rowSums = [...]string{
	"sum = fma(w[r*ldw+kk], x[kk], sum)",
	"sum = fma(w[r*ldw+kk], x[kk], sum), with w in bfloat16",
	"sum = fma(w[r*ldw+kk], x[kk], sum) as tileBF16x14 has it, with words (kk, kk+1) of x for kk = 0, 2, ...",
	"as tilesAMX has it, with w in bfloat16",
}

// ahead is the number of bytes by which each column's memory is fetched ahead. Processors that follow fewer streams than there are
// columns do not fetch it themselves (AMD's Zen 5).
const ahead = 512

// row emits a product of one row with lanes transposed columns. A word of w is an element or a pair of k; four words of
// all lanes are transposed at a time.
func row(c *build.Context, level string, vector func() reg.VecVirtual, lanes int, kind rowKind) {
	name, words := rowNames[kind]+level, 16
	if kind == rowFloats {
		words = 32
	}
	begin(c, name, "func(steps int, x, w *float32, ldw int, out *float32)",
		fmt.Sprintf("%s sets out[r], r in [0, %d), to", name, lanes), "",
		"	sum := 0; for kk in [0, 32*steps): "+rowSums[kind], "",
		"ldw is in words of 4 bytes. steps is not 0.")
	steps, x, w, ldw := load(c, "steps"), load(c, "x"), load(c, "w"), loadBytes(c, "ldw")
	wide := lanes == 16
	rows := newStrided(c, w, ldw, lanes)
	zero := func(v reg.VecVirtual) {
		if wide {
			c.VPXORD(v, v, v)
		} else {
			c.VXORPS(v, v, v)
		}
	}
	sum := vector()
	zero(sum)
	var upper reg.VecVirtual
	if kind == rowWide || kind == rowTiles {
		upper = vector()
		ones := c.GP32()
		c.MOVL(operand.U32(0xffff0000), ones)
		if wide {
			c.VPBROADCASTD(ones, upper)
		} else {
			c.VMOVD(ones, upper.AsX())
			c.VPBROADCASTD(upper.AsX(), upper)
		}
	}
	var control, old operand.Mem
	if kind == rowTiles { // subnormal inputs and results are 0
		local := c.AllocLocal(8)
		old, control = local, local.Offset(4)
		bits := c.GP32()
		c.STMXCSR(old)
		c.MOVL(old, bits)
		c.ORL(operand.U32(0x8040), bits)
		c.MOVL(bits, control)
		c.LDMXCSR(control)
	}
	fma := func(v reg.VecVirtual, at operand.Mem, to reg.VecVirtual) {
		if wide {
			c.VFMADD231PS_BCST(at, v, to)
			return
		}
		b := vector()
		c.VBROADCASTSS(at, b)
		c.VFMADD231PS(b, v, to)
	}
	r := [4]reg.VecVirtual{vector(), vector(), vector(), vector()}
	c.Label("step")
	even, odd := sum, sum
	if kind == rowTiles {
		even, odd = vector(), vector()
		zero(even)
		zero(odd)
	}
	for l := range lanes {
		for line := 0; line < 4*words; line += 64 {
			at := rows.at(l)
			at.Disp += ahead + line
			c.PREFETCHT0(at)
		}
	}
	for i := 0; i < words; i += 4 {
		columns(c, vector, r, func(l int) operand.Mem {
			at := rows.at(l)
			at.Disp += 4 * i
			return at
		})
		for k, v := range r {
			switch kind {
			case rowFloats:
				fma(v, operand.Mem{Base: x, Disp: 4 * (i + k)}, sum)
			case rowPairs:
				b := vector()
				c.VPROLD(operand.Imm(16), v, v)
				c.VPBROADCASTD(operand.Mem{Base: x, Disp: 4 * (i + k)}, b)
				dot(c, b, v, sum)
			default:
				low := vector()
				c.VPSLLD(operand.Imm(16), v, low)
				fma(low, operand.Mem{Base: x, Disp: 8 * (i + k)}, even)
				if wide {
					c.VPANDD(upper, v, v)
				} else {
					c.VANDPS(upper, v, v)
				}
				fma(v, operand.Mem{Base: x, Disp: 8*(i+k) + 4}, odd)
			}
		}
	}
	if kind == rowTiles {
		c.VADDPS(odd, even, even)
		c.VADDPS(even, sum, sum)
	}
	rows.advance(c, operand.U32(uint32(4*words)))
	if kind == rowPairs {
		c.ADDQ(operand.U32(64), x)
	} else {
		c.ADDQ(operand.U32(128), x)
	}
	c.DECQ(steps)
	c.JNZ(operand.LabelRef("step"))
	if kind == rowTiles {
		c.LDMXCSR(old)
	}
	c.VMOVUPS(sum, operand.Mem{Base: load(c, "out")})
	c.VZEROUPPER()
	c.RET()
}
