package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"trireme/asm/arm"
)

// doubles emits float64 and 64-bit integer code, with half the lanes of machine. Products and sums are rounded one by
// one, to equal the Go code bit for bit.
type doubles struct {
	*machine
	consts map[uint64]operand.Mem
}

func (d *doubles) lanes() int { return d.w / 2 }

// long is a constant for NEON.
type long uint64

func (l long) Asm() string { return fmt.Sprintf("%#x", uint64(l)) }

// a returns the register that has x.
func (d *doubles) a(x operand.Op) arm.Reg {
	if l, ok := x.(long); ok {
		return d.arm.Const64(uint64(l))
	}
	return d.machine.a(x)
}

func (d *doubles) bits(v uint64) operand.Op {
	if d.arm != nil {
		return long(v)
	}
	c, ok := d.consts[v]
	if !ok {
		name := "vectorQ" + hex(v)
		if !d.wide {
			name += d.suffix
		}
		c = d.StaticGlobal(name)
		d.DataAttributes(attr.RODATA | attr.NOPTR)
		for range d.lanes() {
			d.AppendDatum(operand.U64(v))
		}
		d.consts[v] = c
	}
	return c
}

func hex(v uint64) string { return fmt.Sprintf("%016x", v) }

func (d *doubles) f(v float64) operand.Op { return d.bits(math.Float64bits(v)) }

func (d *doubles) load(x operand.Op) vec {
	if d.arm != nil {
		return d.arm.Copy(d.a(x))
	}
	return d.machine.load(x)
}

// op emits f of NEON or of AVX. a is a register; b may be in memory.
func (d *doubles) op(neon func(a, b arm.Reg) arm.Reg, avx func(...operand.Op), b, a operand.Op) vec {
	if d.arm != nil {
		return neon(d.a(a), d.a(b))
	}
	return d.binary(avx, b, a)
}

// byWidth returns the instruction for AVX-512, which has names of its own for some, or AVX2.
func (d *doubles) byWidth(wide func(...operand.Op), narrow func(b, a, r operand.Op)) func(...operand.Op) {
	if d.wide {
		return wide
	}
	return func(o ...operand.Op) { narrow(o[0], o[1], o[2]) }
}

func (d *doubles) add(a vec, b operand.Op) vec { return d.op(d.arm.AddDoubles, d.VADDPD, b, a) }
func (d *doubles) sub(a vec, b operand.Op) vec { return d.op(d.arm.SubDoubles, d.VSUBPD, b, a) }
func (d *doubles) mul(a vec, b operand.Op) vec { return d.op(d.arm.MulDoubles, d.VMULPD, b, a) }
func (d *doubles) div(a vec, b operand.Op) vec { return d.op(d.arm.DivDoubles, d.VDIVPD, b, a) }

func (d *doubles) xor(a vec, b operand.Op) vec {
	return d.op(d.arm.Xor, d.byWidth(d.VPXORQ, d.VPXOR), b, a)
}

func (d *doubles) and(a vec, b operand.Op) vec {
	return d.op(d.arm.And, d.byWidth(d.VPANDQ, d.VPAND), b, a)
}

func (d *doubles) or(a vec, b operand.Op) vec {
	return d.op(d.arm.Or, d.byWidth(d.VPORQ, d.VPOR), b, a)
}

// Sums, differences and shifts of integers; product multiplies the lower halves of lanes.
func (d *doubles) plus(a vec, b operand.Op) vec  { return d.op(d.arm.AddLongs, d.VPADDQ, b, a) }
func (d *doubles) minus(a vec, b operand.Op) vec { return d.op(d.arm.SubLongs, d.VPSUBQ, b, a) }

func (d *doubles) product(a vec, b operand.Op) vec {
	if d.arm != nil {
		return d.arm.MulLong(d.arm.NarrowLongs(d.a(a)), d.arm.NarrowLongs(d.a(b)))
	}
	return d.binary(d.VPMULUDQ, b, a)
}

func (d *doubles) left(a vec, n int) vec {
	if d.arm != nil {
		return d.arm.LeftLongs(d.a(a), n)
	}
	return d.binary(d.VPSLLQ, operand.U8(n), a)
}

func (d *doubles) right(a vec, n int) vec {
	if d.arm != nil {
		return d.arm.RightLongs(d.a(a), n)
	}
	return d.binary(d.VPSRLQ, operand.U8(n), a)
}

func (d *doubles) sqrt(a vec) vec {
	if d.arm != nil {
		return d.arm.SqrtDoubles(d.a(a))
	}
	r := d.vec()
	d.VSQRTPD(a, r)
	return r
}

func (d *doubles) zero() vec {
	if d.arm != nil {
		return d.arm.Zero()
	}
	return d.machine.zero()
}

// float converts integers of up to 2^53. AVX2 has no instruction for it: the halves of an integer become the lower digits
// of 2^84 and 2^52, whose distance from these is exact.
func (d *doubles) float(a vec) vec {
	switch {
	case d.arm != nil:
		return d.arm.LongsToDoubles(d.a(a))
	case d.wide:
		r := d.vec()
		d.VCVTQQ2PD(a, r)
		return r
	}
	high := d.or(d.right(a, 32), d.f(0x1p84))
	low := d.or(d.and(a, d.bits(math.MaxUint32)), d.f(0x1p52))
	return d.add(d.sub(high, d.f(0x1p84+0x1p52)), low)
}

// signed converts integers of -2^52 to 2^52 after a shift by n bits to the right, which keeps the sign.
func (d *doubles) signed(a vec, n int) vec {
	switch {
	case d.arm != nil:
		if n > 0 {
			a = d.arm.RightSignedLongs(d.a(a), n)
		}
		return d.arm.LongsToDoubles(d.a(a))
	case d.wide:
		if n > 0 {
			a = d.binary(d.VPSRAQ, operand.U8(n), a)
		}
		return d.float(a)
	}
	a = d.plus(a, d.bits(1<<(52+n))) // not negative: shifts and conversions are those of unsigned numbers
	if n > 0 {
		a = d.right(a, n)
	}
	return d.sub(d.float(a), d.f(0x1p52))
}

// poly computes c[0] + z*(c[1] + z*(...)).
func (d *doubles) poly(z vec, c ...float64) vec {
	r := d.load(d.f(c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		r = d.add(d.mul(r, z), d.f(c[i]))
	}
	return r
}

// word returns a 64-bit parameter in all lanes.
func (d *doubles) word(param string) vec {
	if d.arm != nil {
		v := d.arm.V()
		d.arm.Op("VDUP R%d, V%d.D2", d.arm.Arg(param), v)
		return v
	}
	r := d.vec()
	if d.wide {
		d.VPBROADCASTQ(d.Load(d.Param(param), d.GP64()), r)
		return r
	}
	d.VPBROADCASTQ(d.parameter(param), r)
	return r
}

func (d *doubles) parameter(param string) operand.Mem {
	addr, err := d.Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	return addr.Addr
}

// store rounds a and b to float32 and writes them to memory at dst, each element of a before that of b.
func (d *doubles) store(a, b vec, dst operand.Op) {
	if d.arm != nil {
		d.arm.Store(d.arm.Zip1(d.arm.DoublesToFloats(d.a(a)), d.arm.DoublesToFloats(d.a(b))), dst.(arm.Reg), 0)
		return
	}
	p := operand.Mem{Base: dst.(reg.Register)}
	if d.wide {
		ay, by := d.YMM(), d.YMM()
		d.VCVTPD2PS(a, ay)
		d.VCVTPD2PS(b, by)
		az, bz := d.ZMM(), d.ZMM()
		d.VPMOVZXDQ(ay, az)
		d.VPMOVZXDQ(by, bz)
		d.VPSLLQ(operand.U8(32), bz, bz)
		d.VPORQ(az, bz, bz)
		d.VMOVUPS(bz, p)
		return
	}
	ax, bx, low, high := d.XMM(), d.XMM(), d.XMM(), d.XMM()
	d.VCVTPD2PSY(a, ax)
	d.VCVTPD2PSY(b, bx)
	d.VUNPCKLPS(bx, ax, low)
	d.VUNPCKHPS(bx, ax, high)
	d.VMOVUPS(low, p)
	p.Disp = 16
	d.VMOVUPS(high, p)
}
