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
		sum := 0, or in[r*ldin+c] where in is not nil
		for kk := range k: sum = fma(a[r*si+kk*sk], b[kk*sb+c], sum)
		out[r*ldout+c] = sum, plus the old out[r*ldout+c] where add is not 0

and asks for pf[i*pfstep], i in [0, k/4), to be brought near.
%s`

const tileArgs = "func(k int, a *float32, si, sk int, b *float32, sb int, in *float32, ldin int, out *float32, ldout int, mask uint64, add int, pf *float32, pfstep int)"

// strided gives the addresses of elements 0..rows-1 at a distance of s bytes, with no more
// registers than the processor's scaled indices need.
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

// loadBytes loads a count of floats and makes it one of bytes.
func loadBytes(c *build.Context, name string) reg.GPVirtual {
	r := load(c, name)
	c.SHLQ(operand.Imm(2), r)
	return r
}

// tileAVX512 is a tile of rows x 32 in two registers a row.
func tileAVX512(c *build.Context, rows int) {
	name := fmt.Sprintf("tileAVX512x%d", rows)
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(tileArgs)
	c.Doc(strings.Split(fmt.Sprintf(tileDoc, name, rows, 32, "Strides are in elements. Only columns in mask are read from in and out and written, of b all."), "\n")...)
	c.Pragma("noescape")

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
	// The next tile of the row will want to go on from its sums.
	for r := range acc {
		for h := range 2 {
			p := ps.at(r)
			p.Disp = 128 + 64*h
			c.PREFETCHT0(p)
		}
	}
	c.JMP(operand.LabelRef("begin"))
	c.Label("zero")
	po := newStrided(c, load(c, "out"), loadBytes(c, "ldout"), rows)
	for r := range acc {
		for h := range 2 {
			p := po.at(r)
			p.Disp = 64 * h
			c.PREFETCHT0(p)
			c.VPXORD(acc[r][h], acc[r][h], acc[r][h])
		}
	}
	c.Label("begin")

	a, si, sk, b := load(c, "a"), loadBytes(c, "si"), loadBytes(c, "sk"), load(c, "b")
	pa := newStrided(c, a, si, rows)
	n := load(c, "k")
	pf, pfstep := load(c, "pf"), loadBytes(c, "pfstep")
	const unroll = 4
	sb := loadBytes(c, "sb")
	pb := newStrided(c, b, sb, unroll)
	soon := c.GP64() // rows of b that are asked for
	c.MOVQ(sb, soon)
	c.SHLQ(operand.Imm(prefetchAVX512), soon)
	c.ADDQ(b, soon)
	step := func(u int) {
		bv := [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
		for h := range 2 {
			p := pb.at(u)
			p.Disp = 64 * h
			c.VMOVUPS(p, bv[h])
			c.PREFETCHT0(operand.Mem{Base: soon, Disp: 64 * h})
		}
		c.ADDQ(sb, soon)
		for r := range acc {
			av := c.ZMM()
			c.VBROADCASTSS(pa.at(r), av)
			for h := range 2 {
				c.VFMADD231PS(av, bv[h], acc[r][h])
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

	c.Label("store")
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
}

// A tile asks for rows of b this power of two ahead.
const prefetchAVX512 = 4

// transposeAVX512 turns 16 rows into columns, four columns at a time: a quarter of each
// register is filled from one of four rows, so that only transposes of 4 x 4 remain.
func transposeAVX512(c *build.Context) {
	c.Function("transposeAVX512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, ldd int, src *float32, lds int, n int)")
	c.Doc("transposeAVX512 sets dst[c*ldd+r] = src[r*lds+c] for r in [0, 16) and c in [0, n);", "n is a multiple of 4.")
	c.Pragma("noescape")
	src, lds := load(c, "src"), loadBytes(c, "lds")
	ps := newStrided(c, src, lds, 16)
	dst, ldd, n := load(c, "dst"), loadBytes(c, "ldd"), load(c, "n")
	ldd3 := c.GP64()
	c.LEAQ(operand.Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)
	c.SUBQ(operand.Imm(4), n)
	c.JL(operand.LabelRef("done"))
	c.Label("loop")
	var r [4]reg.VecVirtual
	for i := range r {
		r[i] = c.ZMM()
		c.VMOVUPS(ps.at(i), r[i].AsX())
		for q := 1; q < 4; q++ {
			c.VINSERTF32X4(operand.Imm(uint64(q)), ps.at(4*q+i), r[i], r[i])
		}
	}
	var t [4]reg.VecVirtual
	for i := range t {
		t[i] = c.ZMM()
	}
	c.VUNPCKLPS(r[1], r[0], t[0])
	c.VUNPCKHPS(r[1], r[0], t[1])
	c.VUNPCKLPS(r[3], r[2], t[2])
	c.VUNPCKHPS(r[3], r[2], t[3])
	c.VUNPCKLPD(t[2], t[0], r[0])
	c.VUNPCKHPD(t[2], t[0], r[1])
	c.VUNPCKLPD(t[3], t[1], r[2])
	c.VUNPCKHPD(t[3], t[1], r[3])
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

// peakAVX512 does nothing but fused multiply-adds in registers.
func peakAVX512(c *build.Context) {
	c.Function("peakAVX512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(n int)")
	c.Doc("peakAVX512 does n times 24 independent fused multiply-adds on 16 floats each.")
	n := load(c, "n")
	var acc [24]reg.VecVirtual
	for i := range acc {
		acc[i] = c.ZMM()
		c.VPXORD(acc[i], acc[i], acc[i])
	}
	x := c.ZMM()
	c.VPXORD(x, x, x)
	c.Label("loop")
	for i := range acc {
		c.VFMADD231PS(x, x, acc[i])
	}
	c.DECQ(n)
	c.JNZ(operand.LabelRef("loop"))
	c.VZEROUPPER()
	c.RET()
}
