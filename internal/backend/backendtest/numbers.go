package backendtest

import (
	"encoding/binary"
	"math"

	"trireme/tensor"
)

// encode is numbers as bytes of type dt, rounded to nearest even.
func encode(dt tensor.DType, v []float64) []byte {
	var out []byte
	for _, x := range v {
		switch dt {
		case tensor.F32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
		case tensor.F64:
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
		case tensor.BF16:
			out = binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(float32(round(dt, x)))>>16))
		case tensor.F16:
			out = binary.LittleEndian.AppendUint16(out, half(round(dt, x)))
		case tensor.I32:
			out = binary.LittleEndian.AppendUint32(out, uint32(int32(x)))
		case tensor.I64:
			out = binary.LittleEndian.AppendUint64(out, uint64(int64(x)))
		case tensor.U8:
			out = append(out, uint8(x))
		}
	}
	return out
}

// decode is the inverse of encode.
func decode(dt tensor.DType, b []byte) []float64 {
	out := make([]float64, 0, len(b)/dt.Size())
	for ; len(b) > 0; b = b[dt.Size():] {
		var x float64
		switch dt {
		case tensor.F32:
			x = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case tensor.F64:
			x = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case tensor.BF16:
			x = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		case tensor.F16:
			x = fromHalf(binary.LittleEndian.Uint16(b))
		case tensor.I32:
			x = float64(int32(binary.LittleEndian.Uint32(b)))
		case tensor.I64:
			x = float64(int64(binary.LittleEndian.Uint64(b)))
		case tensor.U8:
			x = float64(b[0])
		}
		out = append(out, x)
	}
	return out
}

// round rounds x to dt, to nearest even.
func round(dt tensor.DType, x float64) float64 {
	bits, lowest, largest := 0, 0, 0.0
	switch dt {
	case tensor.F32:
		return float64(float32(x))
	case tensor.BF16:
		bits, lowest, largest = 8, -133, math.Ldexp(255, 120)
	case tensor.F16:
		bits, lowest, largest = 11, -24, 65504
	default:
		return x
	}
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	_, exp := math.Frexp(x)
	unit := math.Ldexp(1, max(exp-bits, lowest))
	y := math.RoundToEven(x/unit) * unit
	if math.Abs(y) > largest {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return math.Copysign(y, x)
}

// half is the bits of a number that F16 represents.
func half(x float64) uint16 {
	sign := uint16(math.Float64bits(x) >> 48 & 0x8000)
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return sign | 0x7e00
	case math.IsInf(a, 0):
		return sign | 0x7c00
	case a < math.Ldexp(1, -14):
		return sign | uint16(math.Ldexp(a, 24))
	default:
		frac, exp := math.Frexp(a)
		return sign | uint16(exp+14)<<10 | uint16(math.Ldexp(frac, 11))&0x3ff
	}
}

func fromHalf(h uint16) float64 {
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	x := math.Ldexp(frac, -24)
	switch {
	case exp == 31 && frac != 0:
		return math.NaN()
	case exp == 31:
		x = math.Inf(1)
	case exp > 0:
		x = math.Ldexp(1024+frac, exp-25)
	}
	if h&0x8000 != 0 {
		x = -x
	}
	return x
}
