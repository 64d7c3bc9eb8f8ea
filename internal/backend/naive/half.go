package naive

import "math"

// toBF16 rounds to nearest even, through F32 like other backends.
func toBF16(v float64) uint16 {
	bits := math.Float32bits(float32(v))
	if v != v {
		return uint16(bits>>16) | 0x40 // rounding could carry into an infinity
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// toF16 rounds to nearest even, through F32: 5 exponent bits, 10 fraction bits.
func toF16(v float64) uint16 {
	v = float64(float32(v))
	sign := uint16(math.Float64bits(v) >> 48 & 0x8000)
	a := math.Abs(v)
	switch {
	case v != v:
		return sign | 0x7e00
	case a < math.Ldexp(1, -14): // subnormal, a multiple of 2^-24; the largest rounds up to normal
		return sign | uint16(math.RoundToEven(math.Ldexp(a, 24)))
	case a >= 65520:
		return sign | 0x7c00
	}
	frac, exp := math.Frexp(a) // a carry out of the fraction increments the exponent
	return sign | uint16((exp+13)<<10+int(math.RoundToEven(math.Ldexp(frac, 11))))
}

func fromF16(h uint16) float64 {
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	v := math.Ldexp(frac, -24)
	switch {
	case exp == 31 && frac != 0:
		return math.NaN()
	case exp == 31:
		v = math.Inf(1)
	case exp > 0:
		v = math.Ldexp(1024+frac, exp-25)
	}
	return math.Copysign(v, 1-2*float64(h>>15))
}
