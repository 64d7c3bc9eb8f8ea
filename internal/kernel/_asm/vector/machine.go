package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// machine emits float32 vector code for one instruction set. The tail is masked and runs the
// instructions of the body, so that the bits of an element do not depend on its position.
type machine struct {
	*build.Context
	wide   bool // AVX-512
	w      int  // elements of a vector
	suffix string
	consts map[uint32]operand.Mem
	masks  operand.Mem // AVX2: eight words of ones, then eight of zeros

	// Of the current function.
	i, n   reg.GPVirtual
	k      reg.Register   // AVX-512: the mask of the tail
	mask   reg.VecVirtual // AVX2: the same
	masked bool
}

type vec = reg.VecVirtual

func newMachine(c *build.Context, wide bool) *machine {
	m := &machine{Context: c, wide: wide, w: 8, suffix: "AVX2", consts: map[uint32]operand.Mem{}}
	if wide {
		m.w, m.suffix = 16, "AVX512"
		return m
	}
	m.masks = c.StaticGlobal("vectorMaskAVX2")
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		v := uint32(0)
		if i < 8 {
			v = math.MaxUint32
		}
		c.AppendDatum(operand.U32(v))
	}
	return m
}

func (m *machine) vec() vec {
	if m.wide {
		return m.ZMM()
	}
	return m.YMM()
}

// bits returns a constant in memory, in every lane.
func (m *machine) bits(v uint32) operand.Mem {
	c, ok := m.consts[v]
	if !ok {
		c = m.StaticGlobal(fmt.Sprintf("vector%08x%s", v, m.suffix))
		m.DataAttributes(attr.RODATA | attr.NOPTR)
		for range m.w {
			m.AppendDatum(operand.U32(v))
		}
		m.consts[v] = c
	}
	return c
}

func (m *machine) f(v float64) operand.Mem { return m.bits(math.Float32bits(float32(v))) }

// load copies a constant or another operand into a register.
func (m *machine) load(x operand.Op) vec {
	d := m.vec()
	m.VMOVUPS(x, d)
	return d
}

func (m *machine) binary(f func(...operand.Op), b operand.Op, a operand.Op) vec {
	d := m.vec()
	f(b, a, d)
	return d
}

// a is a register; b may be in memory.
func (m *machine) add(a vec, b operand.Op) vec { return m.binary(m.VADDPS, b, a) }
func (m *machine) sub(a vec, b operand.Op) vec { return m.binary(m.VSUBPS, b, a) }
func (m *machine) mul(a vec, b operand.Op) vec { return m.binary(m.VMULPS, b, a) }
func (m *machine) div(a vec, b operand.Op) vec { return m.binary(m.VDIVPS, b, a) }

// min and max return b if either operand is NaN.
func (m *machine) min(a vec, b operand.Op) vec { return m.binary(m.VMINPS, b, a) }
func (m *machine) max(a vec, b operand.Op) vec { return m.binary(m.VMAXPS, b, a) }

func (m *machine) sqrt(a vec) vec {
	d := m.vec()
	m.VSQRTPS(a, d)
	return d
}

func (m *machine) and(a vec, b operand.Op) vec {
	if m.wide {
		return m.binary(m.VPANDD, b, a)
	}
	return m.binary(m.VANDPS, b, a)
}

func (m *machine) xor(a vec, b operand.Op) vec {
	if m.wide {
		return m.binary(m.VPXORD, b, a)
	}
	return m.binary(m.VXORPS, b, a)
}

func (m *machine) zero() vec {
	d := m.vec()
	if m.wide {
		m.VPXORD(d, d, d)
	} else {
		m.VXORPS(d, d, d)
	}
	return d
}

// horner emits d = d*x + c.
func (m *machine) horner(d, x vec, c operand.Op) { m.VFMADD213PS(c, x, d) }

// fma emits d += a*b, fnma d -= a*b.
func (m *machine) fma(d, a vec, b operand.Op)  { m.VFMADD231PS(b, a, d) }
func (m *machine) fnma(d, a vec, b operand.Op) { m.VFNMADD231PS(b, a, d) }

// function starts a kernel; sig is its Go signature.
func (m *machine) function(name, sig, doc string) {
	m.Function(name + m.suffix)
	m.Attributes(attr.NOSPLIT)
	m.SignatureExpr(sig)
	m.Doc(name + m.suffix + " " + doc)
	m.Pragma("noescape")
	m.masked = false
}

func (m *machine) end() {
	m.VZEROUPPER()
	m.RET()
}

func (m *machine) base(param string) reg.Register {
	return m.Load(m.Param(param).Base(), m.GP64())
}

func (m *machine) length(param string) reg.GPVirtual {
	r := m.GP64()
	m.Load(m.Param(param).Len(), r)
	return r
}

// scalar broadcasts a float32 parameter.
func (m *machine) scalar(param string) vec {
	a, err := m.Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	return m.broadcast(a.Addr)
}

func (m *machine) broadcast(a operand.Mem) vec {
	d := m.vec()
	m.VBROADCASTSS(a, d)
	return d
}

// at returns vector u after index i of the slice at base.
func (m *machine) at(base reg.Register, u int) operand.Mem {
	return operand.Mem{Base: base, Index: m.i, Scale: 4, Disp: 4 * m.w * u}
}

// get reads a vector; lanes beyond the end are 0.
func (m *machine) get(base reg.Register, u int) vec {
	d := m.vec()
	switch a := m.at(base, u); {
	case !m.masked:
		m.VMOVUPS(a, d)
	case m.wide:
		m.VMOVUPS_Z(a, m.k, d)
	default:
		m.VMASKMOVPS(a, m.mask, d)
	}
	return d
}

func (m *machine) put(v vec, base reg.Register, u int) {
	switch a := m.at(base, u); {
	case !m.masked:
		m.VMOVUPS(v, a)
	case m.wide:
		m.VMOVUPS(v, m.k, a)
	default:
		m.VMASKMOVPS(v, m.mask, a)
	}
}

// keep zeroes v beyond the end.
func (m *machine) keep(v vec) vec {
	switch {
	case !m.masked:
		return v
	case m.wide:
		d := m.vec()
		m.VMOVAPS_Z(v, m.k, d)
		return d
	}
	return m.and(v, m.mask)
}

// loop emits body for all elements of the slice param: unroll vectors at a time (u is their index),
// one at a time, and the masked tail. tag distinguishes the labels of two loops in a function.
func (m *machine) loop(param, tag string, unroll int, body func(u int)) {
	m.n = m.length(param)
	m.loopTo(tag, unroll, body)
}

func (m *machine) loopTo(tag string, unroll int, body func(u int)) {
	label := func(s string) operand.LabelRef { return operand.LabelRef(tag + s) }
	m.i = m.GP64()
	m.XORQ(m.i, m.i)
	steps := []int{1}
	if unroll > 1 {
		steps = []int{unroll, 1}
	}
	for _, s := range steps {
		end := m.GP64()
		m.MOVQ(m.n, end)
		m.SUBQ(operand.I32(s*m.w), end)
		name, done := fmt.Sprint("by", s), fmt.Sprint("after", s)
		m.CMPQ(m.i, end)
		m.JGT(label(done))
		m.Label(tag + name)
		for u := range s {
			body(u)
		}
		m.ADDQ(operand.I32(s*m.w), m.i)
		m.CMPQ(m.i, end)
		m.JLE(label(name))
		m.Label(tag + done)
	}
	left := m.GP64()
	m.MOVQ(m.n, left)
	m.SUBQ(m.i, left)
	m.JLE(label("done"))
	m.masked = true
	if m.wide {
		ones, k := m.GP64(), m.K()
		m.MOVQ(operand.I32(-1), ones)
		m.BZHIQ(left, ones, ones)
		m.KMOVW(ones.As32(), k)
		m.k = k
	} else {
		table := m.GP64()
		m.LEAQ(m.masks, table)
		m.NEGQ(left)
		m.mask = m.YMM()
		m.VMOVUPS(operand.Mem{Base: table, Index: left, Scale: 4, Disp: 32}, m.mask)
	}
	body(0)
	m.masked = false
	m.Label(tag + "done")
}

// lanes reduces a vector to one lane with f, which must be commutative.
func (m *machine) lanes(v vec, f func(...operand.Op)) reg.VecVirtual {
	y := v
	if m.wide {
		h := m.YMM()
		m.VEXTRACTF64X4(operand.U8(1), v, h)
		y = m.YMM()
		f(h, v.AsY(), y)
	}
	h, x := m.XMM(), m.XMM()
	m.VEXTRACTF128(operand.U8(1), y.AsY(), h)
	f(h, y.AsX(), x)
	t := m.XMM()
	m.VPERMILPS(operand.U8(0b01_00_11_10), x, t)
	f(t, x, x)
	m.VPERMILPS(operand.U8(0b10_11_00_01), x, t)
	f(t, x, x)
	return x
}

// result returns the sum of four accumulators' lanes as a float64.
func (m *machine) result(index int, acc []vec) {
	for len(acc) > 1 {
		h := len(acc) / 2
		for i := range h {
			acc[i] = m.add(acc[i], acc[i+h])
		}
		acc = acc[:h]
	}
	x := m.lanes(acc[0], m.VADDPS)
	m.VCVTSS2SD(x, x, x)
	m.Store(x, m.ReturnIndex(index))
}

func (m *machine) accumulators(n int) []vec {
	acc := make([]vec, n)
	for i := range acc {
		acc[i] = m.zero()
	}
	return acc
}
