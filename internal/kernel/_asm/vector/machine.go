package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"trireme/asm/arm"
)

// machine emits float32 vector code for one instruction set. The tail runs the instructions of the body, so that the bits
// of an element do not depend on its position: masked, or with NEON in lane 0, one element at a time.
type machine struct {
	*build.Context
	wide   bool         // AVX-512
	arm    *arm.Builder // NEON
	w      int          // elements of a vector
	suffix string
	consts map[uint32]operand.Mem
	masks  operand.Mem // AVX2: eight words of ones, then eight of zeros

	// Of the current function.
	i, n   reg.GPVirtual
	k      reg.Register   // AVX-512: the mask of the tail
	mask   reg.VecVirtual // AVX2: the same
	masked bool
	ai, an arm.Reg             // NEON: i in bytes, n
	ats    map[arm.Reg]arm.Reg // NEON: addresses of index i
}

// vec is a vector register, or a constant that an instruction can read.
type vec = operand.Op

// word is a constant for NEON.
type word uint32

func (w word) Asm() string { return fmt.Sprintf("%#x", uint32(w)) }

func newNEON() *machine { return &machine{arm: arm.New("vectors"), w: 4, suffix: "NEON"} }

// a returns the register that has x.
func (m *machine) a(x operand.Op) arm.Reg {
	if w, ok := x.(word); ok {
		return m.arm.Const(uint32(w))
	}
	return x.(arm.Reg)
}

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

func (m *machine) vec() reg.VecVirtual {
	if m.wide {
		return m.ZMM()
	}
	return m.YMM()
}

// bits returns a constant in memory, in every lane.
func (m *machine) bits(v uint32) operand.Op {
	if m.arm != nil {
		return word(v)
	}
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

func (m *machine) f(v float64) operand.Op { return m.bits(math.Float32bits(float32(v))) }

// load copies a constant or another operand into a register.
func (m *machine) load(x operand.Op) vec {
	if m.arm != nil {
		if w, ok := x.(word); ok {
			return m.arm.Const(uint32(w))
		}
		return m.arm.Copy(m.a(x))
	}
	d := m.vec()
	m.VMOVUPS(x, d)
	return d
}

func (m *machine) binary(f func(...operand.Op), b operand.Op, a operand.Op) vec {
	d := m.vec()
	f(b, a, d)
	return d
}

// either emits f of NEON or of AVX.
func (m *machine) either(neon func(a, b arm.Reg) arm.Reg, avx func(...operand.Op), b, a operand.Op) vec {
	if m.arm != nil {
		return neon(m.a(a), m.a(b))
	}
	return m.binary(avx, b, a)
}

// a is a register; b may be in memory.
func (m *machine) add(a vec, b operand.Op) vec { return m.either(m.arm.Add, m.VADDPS, b, a) }
func (m *machine) sub(a vec, b operand.Op) vec { return m.either(m.arm.Sub, m.VSUBPS, b, a) }
func (m *machine) mul(a vec, b operand.Op) vec { return m.either(m.arm.Mul, m.VMULPS, b, a) }
func (m *machine) div(a vec, b operand.Op) vec { return m.either(m.arm.Div, m.VDIVPS, b, a) }

// min and max return b if b is NaN.
func (m *machine) min(a vec, b operand.Op) vec { return m.either(m.arm.Min, m.VMINPS, b, a) }
func (m *machine) max(a vec, b operand.Op) vec { return m.either(m.arm.Max, m.VMAXPS, b, a) }

// addTo emits d += x.
func (m *machine) addTo(d, x vec) {
	if m.arm != nil {
		m.arm.Accumulate(m.a(d), m.a(x))
		return
	}
	m.VADDPS(x, d, d)
}

func (m *machine) sqrt(a vec) vec {
	if m.arm != nil {
		return m.arm.Sqrt(m.a(a))
	}
	d := m.vec()
	m.VSQRTPS(a, d)
	return d
}

func (m *machine) and(a vec, b operand.Op) vec {
	if m.wide {
		return m.binary(m.VPANDD, b, a)
	}
	return m.either(m.arm.And, m.VANDPS, b, a)
}

func (m *machine) xor(a vec, b operand.Op) vec {
	if m.wide {
		return m.binary(m.VPXORD, b, a)
	}
	return m.either(m.arm.Xor, m.VXORPS, b, a)
}

func (m *machine) zero() vec {
	if m.arm != nil {
		return m.arm.Zero()
	}
	d := m.vec()
	if m.wide {
		m.VPXORD(d, d, d)
	} else {
		m.VXORPS(d, d, d)
	}
	return d
}

// horner emits d = d*x + c.
func (m *machine) horner(d *vec, x vec, c operand.Op) {
	if m.arm != nil {
		sum := m.load(c)
		m.arm.FMA(m.a(sum), m.a(*d), m.a(x))
		*d = sum
		return
	}
	m.VFMADD213PS(c, x, *d)
}

// fma emits d += a*b, fnma d -= a*b.
func (m *machine) fma(d, a vec, b operand.Op) {
	if m.arm != nil {
		m.arm.FMA(m.a(d), m.a(a), m.a(b))
		return
	}
	m.VFMADD231PS(b, a, d)
}

func (m *machine) fnma(d, a vec, b operand.Op) {
	if m.arm != nil {
		m.arm.FMS(m.a(d), m.a(a), m.a(b))
		return
	}
	m.VFNMADD231PS(b, a, d)
}

// function starts a kernel; sig is its Go signature.
func (m *machine) function(name, sig, doc string) {
	if m.arm != nil {
		m.arm.Begin(name+m.suffix, sig, doc)
		return
	}
	m.Function(name + m.suffix)
	m.Attributes(attr.NOSPLIT)
	m.SignatureExpr(sig)
	m.Doc(name + m.suffix + " " + doc)
	m.Pragma("noescape")
	m.masked = false
}

func (m *machine) end() {
	if m.arm != nil {
		m.arm.End()
		return
	}
	m.VZEROUPPER()
	m.RET()
}

func (m *machine) base(param string) operand.Op {
	if m.arm != nil {
		return m.arm.Arg(param + ".base")
	}
	return m.Load(m.Param(param).Base(), m.GP64())
}

func (m *machine) length(param string) reg.GPVirtual {
	r := m.GP64()
	m.Load(m.Param(param).Len(), r)
	return r
}

// scalar broadcasts a float32 parameter.
func (m *machine) scalar(param string) vec {
	if m.arm != nil {
		x := m.arm.V()
		m.arm.Op("FMOVS "+m.arm.Address(param)+", F%d", x)
		return m.arm.Dup(x)
	}
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
func (m *machine) at(base operand.Op, u int) operand.Mem {
	return operand.Mem{Base: base.(reg.Register), Index: m.i, Scale: 4, Disp: 4 * m.w * u}
}

// address returns the register with the address of index i of the slice at base.
func (m *machine) address(base operand.Op) arm.Reg {
	b := m.a(base)
	at, ok := m.ats[b]
	if !ok {
		at = m.arm.G()
		m.arm.Op("ADD R%d, R%d, R%d", m.ai, b, at)
		m.ats[b] = at
	}
	return at
}

// get reads a vector; lanes beyond the end are 0.
func (m *machine) get(base operand.Op, u int) vec {
	if m.arm != nil {
		at := m.address(base)
		if m.masked {
			return m.arm.Lane(at, 0)
		}
		return m.arm.Load(at, 16*u)
	}
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

func (m *machine) put(v vec, base operand.Op, u int) {
	if m.arm != nil {
		at := m.address(base)
		if m.masked {
			m.arm.StoreLane(m.a(v), at, 0)
			return
		}
		m.arm.Store(m.a(v), at, 16*u)
		return
	}
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
	case m.arm != nil:
		d := m.arm.V()
		m.arm.Op("FMOVS F%d, F%d", m.a(v), d) // clears the other lanes
		return d
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
	if m.arm != nil {
		m.an = m.arm.Arg(param + ".len")
	} else {
		m.n = m.length(param)
	}
	m.loopTo(tag, unroll, body)
}

func (m *machine) loopTo(tag string, unroll int, body func(u int)) {
	if m.arm != nil {
		m.loopNEON(tag, unroll, body)
		return
	}
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

// loopNEON counts down the elements that are left.
func (m *machine) loopNEON(tag string, unroll int, body func(u int)) {
	b := m.arm
	m.ai = b.G()
	left := b.G()
	b.Op("MOVD $0, R%d", m.ai)
	b.Op("MOVD R%d, R%d", m.an, left)
	steps := []int{m.w, 1}
	if unroll > 1 {
		steps = []int{unroll * m.w, m.w, 1}
	}
	for _, s := range steps {
		name, done := fmt.Sprint(tag, "by", s), fmt.Sprint(tag, "after", s)
		b.Op("CMP $%d, R%d", s, left)
		b.Branch(done, "BLT")
		b.Label(name)
		m.masked, m.ats = s == 1, map[arm.Reg]arm.Reg{}
		for u := range max(1, s/m.w) {
			body(u)
		}
		m.masked = false
		b.Op("ADD $%d, R%d", 4*s, m.ai)
		b.Op("SUB $%d, R%d", s, left)
		b.Op("CMP $%d, R%d", s, left)
		b.Branch(name, "BGE")
		b.Label(done)
	}
}

// reduce reduces a vector to one lane by addition, or with largest by the maximum.
func (m *machine) reduce(v vec, largest bool) vec {
	if m.arm != nil {
		if largest {
			return m.arm.MaxLane(m.a(v))
		}
		return m.arm.SumPair(m.arm.AddPairs(m.a(v), m.a(v)))
	}
	f := m.VADDPS
	if largest {
		f = m.VMAXPS
	}
	y := v.(reg.VecVirtual)
	if m.wide {
		h, all := m.YMM(), y
		m.VEXTRACTF64X4(operand.U8(1), all, h)
		y = m.YMM()
		f(h, all.AsY(), y)
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
	x := m.reduce(acc[0], false)
	if m.arm != nil {
		m.arm.Op("FCVTSD F%d, F%d", m.a(x), m.a(x))
		m.arm.Op("FMOVD F%d, "+m.arm.Address(fmt.Sprint("return ", index)), m.a(x))
		return
	}
	m.VCVTSS2SD(x, x, x)
	m.Store(x.(reg.Register), m.ReturnIndex(index))
}

// single returns lane 0 of x as a float32.
func (m *machine) single(x vec) {
	if m.arm != nil {
		m.arm.Op("FMOVS F%d, "+m.arm.Address("return 0"), m.a(x))
		return
	}
	m.Store(x.(reg.Register), m.ReturnIndex(0))
}

func (m *machine) accumulators(n int) []vec {
	acc := make([]vec, n)
	for i := range acc {
		acc[i] = m.zero()
	}
	return acc
}
