package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const tileDoc = `%s computes %d rows and up to %d columns of a product:

	for r, for c in mask:
		sum := 0, or in[r*ldin+c] if in is not nil
		for kk := range k: sum = fma(a[r*si+kk*sk], b[kk*sb+c], sum)
		out[r*ldout+c] = sum, plus the old out[r*ldout+c] if add is not 0

and prefetches pf[i*pfstep], i in [0, k/4).
%s`

// tileComment documents the tile of the most rows; the others refer to it.
func tileComment(set string, rows, most, columns int, note string) []string {
	name := fmt.Sprintf("tile%sx%d", set, rows)
	if rows != most {
		return []string{fmt.Sprintf("%s is tile%sx%d with rows = %d.", name, set, most, rows)}
	}
	return strings.Split(fmt.Sprintf(tileDoc, name, rows, columns, note), "\n")
}

const tileArgs = "func(k int, a *float32, si, sk int, b *float32, sb int, in *float32, ldin int, out *float32, ldout int, mask uint64, add int, pf *float32, pfstep int)"

// strided addresses elements 0..rows-1 with stride s bytes, in the fewest registers that scaled
// indices allow.
type strided struct {
	bases []reg.GPVirtual // of elements 0, 7, 14
	s     [6]reg.GPVirtual
}

func newStrided(c *build.Context, base, s reg.GPVirtual, rows int) *strided {
	t := &strided{bases: []reg.GPVirtual{base}}
	t.s[1] = s
	if rows > 3 {
		t.s[3] = c.GP64()
		c.LEAQ(operand.Mem{Base: s, Index: s, Scale: 2}, t.s[3])
	}
	if rows > 5 {
		t.s[5] = c.GP64()
		c.LEAQ(operand.Mem{Base: s, Index: s, Scale: 4}, t.s[5])
	}
	for next := 7; next < rows; next += 7 {
		b := c.GP64()
		c.LEAQ(operand.Mem{Base: t.bases[len(t.bases)-1], Index: t.s[3], Scale: 2}, b)
		c.ADDQ(s, b)
		t.bases = append(t.bases, b)
	}
	return t
}

func (t *strided) at(r int) operand.Mem {
	m := operand.Mem{Base: t.bases[r/7]}
	switch r % 7 {
	case 0:
	case 1, 2, 4:
		m.Index, m.Scale = t.s[1], uint8(r%7)
	case 3:
		m.Index, m.Scale = t.s[3], 1
	case 5:
		m.Index, m.Scale = t.s[5], 1
	case 6:
		m.Index, m.Scale = t.s[3], 2
	}
	return m
}

func (t *strided) advance(c *build.Context, by operand.Op) {
	for _, b := range t.bases {
		c.ADDQ(by, b)
	}
}

func load(c *build.Context, name string) reg.GPVirtual {
	r := c.GP64()
	c.Load(c.Param(name), r)
	return r
}

// loadBytes loads a count of floats, in bytes.
func loadBytes(c *build.Context, name string) reg.GPVirtual {
	r := load(c, name)
	c.SHLQ(operand.Imm(2), r)
	return r
}

// begin starts a function whose pointers do not escape.
func begin(c *build.Context, name, signature string, doc ...string) {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(signature)
	c.Doc(doc...)
	c.Pragma("noescape")
}

// multiply adds a's rows times b's columns to acc by mul, whose last operand is a sum. The vectors of
// acc are half a row each. ahead is the base-2 logarithm of the prefetch distance in rows of b, or 0.
func multiply(c *build.Context, acc [][2]reg.VecVirtual, vector func() reg.VecVirtual, mul func(...operand.Op), ahead uint64) {
	a, si, sk, b := load(c, "a"), loadBytes(c, "si"), loadBytes(c, "sk"), load(c, "b")
	pa := newStrided(c, a, si, len(acc))
	n := load(c, "k")
	pf, pfstep := load(c, "pf"), loadBytes(c, "pfstep")
	const unroll = 4
	sb := loadBytes(c, "sb")
	pb := newStrided(c, b, sb, unroll)
	var soon reg.GPVirtual // rows of b to prefetch
	if ahead > 0 {
		soon = c.GP64()
		c.MOVQ(sb, soon)
		c.SHLQ(operand.Imm(ahead), soon)
		c.ADDQ(b, soon)
	}
	step := func(u int) {
		bv := [2]reg.VecVirtual{vector(), vector()}
		for h := range bv {
			p := pb.at(u)
			p.Disp = int(bv[h].Size()) * h
			c.VMOVUPS(p, bv[h])
			if ahead > 0 {
				c.PREFETCHT0(operand.Mem{Base: soon, Disp: p.Disp})
			}
		}
		if ahead > 0 {
			c.ADDQ(sb, soon)
		}
		for r := range acc {
			av := vector()
			c.VBROADCASTSS(pa.at(r), av)
			for h := range bv {
				mul(av, bv[h], acc[r][h])
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
}

// columns loads 4 registers r with columns of four rows each, at(4*q+i) in quarter q of register i, and
// transposes them: register k then has column k of all rows. avo takes r for live before it, so a function that
// transposes several times reuses r.
func columns(c *build.Context, vector func() reg.VecVirtual, r [4]reg.VecVirtual, at func(i int) operand.Mem) {
	var t [4]reg.VecVirtual
	for i := range r {
		c.VMOVUPS(at(i), r[i].AsX())
		if r[i].Size() == 32 {
			c.VINSERTF128(operand.Imm(1), at(4+i), r[i], r[i])
			continue
		}
		for q := 1; q < 4; q++ {
			c.VINSERTF32X4(operand.Imm(uint64(q)), at(4*q+i), r[i], r[i])
		}
	}
	for i := range t {
		t[i] = vector()
	}
	c.VUNPCKLPS(r[1], r[0], t[0])
	c.VUNPCKHPS(r[1], r[0], t[1])
	c.VUNPCKLPS(r[3], r[2], t[2])
	c.VUNPCKHPS(r[3], r[2], t[3])
	c.VUNPCKLPD(t[2], t[0], r[0])
	c.VUNPCKHPD(t[2], t[0], r[1])
	c.VUNPCKLPD(t[3], t[1], r[2])
	c.VUNPCKHPD(t[3], t[1], r[3])
}

// transpose transposes one row per lane, four columns at a time. Each quarter of a register is loaded
// from one of four rows, which leaves only 4 x 4 transposes.
func transpose(c *build.Context, level string, vector func() reg.VecVirtual, lanes int) {
	name := "transpose" + level
	begin(c, name, "func(dst *float32, ldd int, src *float32, lds int, n int)",
		fmt.Sprintf("%s sets dst[c*ldd+r] = src[r*lds+c] for r in [0, %d) and c in [0, n);", name, lanes), "n is a multiple of 4.")
	transposeBody(c, vector, lanes, loadBytes, func(reg.VecVirtual) {})
}

// transposeBody is transpose with a stride of rows that stride loads; change is applied to each register
// of columns.
func transposeBody(c *build.Context, vector func() reg.VecVirtual, lanes int, stride func(*build.Context, string) reg.GPVirtual, change func(reg.VecVirtual)) {
	src, lds := load(c, "src"), stride(c, "lds")
	ps := newStrided(c, src, lds, lanes)
	dst, ldd, n := load(c, "dst"), loadBytes(c, "ldd"), load(c, "n")
	ldd3 := c.GP64()
	c.LEAQ(operand.Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)
	c.SUBQ(operand.Imm(4), n)
	c.JL(operand.LabelRef("done"))
	c.Label("loop")
	r := [4]reg.VecVirtual{vector(), vector(), vector(), vector()}
	columns(c, vector, r, ps.at)
	for _, v := range r {
		change(v)
	}
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

// peak emits only multiplications by mul in registers; zero clears one.
func peak(c *build.Context, level string, vector func() reg.VecVirtual, registers int, mul, zero func(...operand.Op)) {
	name := "peak" + level
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(n int)")
	n := load(c, "n")
	acc := make([]reg.VecVirtual, registers)
	for i := range acc {
		acc[i] = vector()
		zero(acc[i], acc[i], acc[i])
	}
	x := vector()
	zero(x, x, x)
	c.Doc(fmt.Sprintf("%s does n times %d independent multiply-adds on %d sums each.", name, registers, x.Size()/4))
	c.Label("loop")
	for i := range acc {
		mul(x, x, acc[i])
	}
	c.DECQ(n)
	c.JNZ(operand.LabelRef("loop"))
	c.VZEROUPPER()
	c.RET()
}
