package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"

	"trireme/tensor"
)

// Convertible reports whether Convert supports the conversion: equal types, or any two of F32, BF16
// and F16.
func Convertible(from, to tensor.DType) bool {
	return from == to || isFloat(from) && isFloat(to)
}

func isFloat(d tensor.DType) bool {
	return d == tensor.F32 || d == tensor.BF16 || d == tensor.F16
}

// Convert converts the elements of src from dtype from to dtype to, rounding to nearest even; NaN
// stays NaN. Both slices are little-endian, have the same number of elements and do not overlap. It
// panics if the types are not Convertible.
func Convert(dst []byte, to tensor.DType, src []byte, from tensor.DType) {
	n := len(src) / from.Size()
	if len(dst) != n*to.Size() || len(src) != n*from.Size() {
		panic(fmt.Sprintf("safetensors: convert %d bytes of %v to %d bytes of %v", len(src), from, len(dst), to))
	}
	le := binary.LittleEndian
	switch {
	case from == to:
		copy(dst, src)
	case from == tensor.F32 && to == tensor.BF16:
		for i := range n {
			le.PutUint16(dst[2*i:], bf16(le.Uint32(src[4*i:])))
		}
	case from == tensor.BF16 && to == tensor.F32:
		for i := range n {
			le.PutUint32(dst[4*i:], uint32(le.Uint16(src[2*i:]))<<16)
		}
	case from == tensor.F32 && to == tensor.F16:
		for i := range n {
			le.PutUint16(dst[2*i:], f16(le.Uint32(src[4*i:])))
		}
	case from == tensor.F16 && to == tensor.F32:
		for i := range n {
			le.PutUint32(dst[4*i:], fromF16(le.Uint16(src[2*i:])))
		}
	case from == tensor.BF16 && to == tensor.F16:
		for i := range n {
			le.PutUint16(dst[2*i:], f16(uint32(le.Uint16(src[2*i:]))<<16))
		}
	case from == tensor.F16 && to == tensor.BF16:
		for i := range n {
			le.PutUint16(dst[2*i:], bf16(fromF16(le.Uint16(src[2*i:]))))
		}
	default:
		panic(fmt.Sprintf("safetensors: there is no conversion from %v to %v", from, to))
	}
}

// bf16 rounds float32 bits to bfloat16.
func bf16(x uint32) uint16 {
	if x&0x7fffffff > 0x7f800000 {
		return uint16(x>>16) | 0x40 // quiet NaN: truncating the payload must not yield infinity
	}
	return uint16((x + 0x7fff + x>>16&1) >> 16)
}

// f16 rounds float32 bits to IEEE half.
func f16(x uint32) uint16 {
	sign, abs := uint16(x>>16)&0x8000, x&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13)&0x1ff
	case abs >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case abs >= 0x38800000: // normal: 2^-14 and above
		abs -= 112 << 23
		return sign | uint16((abs+0xfff+abs>>13&1)>>13)
	default: // a multiple of 2^-24: adding 0.5 leaves it, rounded, in the low bits
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-0x3f000000)
	}
}

// fromF16 returns the float32 bits of an IEEE half.
func fromF16(h uint16) uint32 {
	sign, abs := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case abs > 0x7c00:
		return sign | 0x7fc00000 | abs<<13
	case abs == 0x7c00:
		return sign | 0x7f800000
	case abs >= 0x0400:
		return sign | (abs<<13 + 112<<23)
	default:
		return sign | math.Float32bits(float32(abs)*0x1p-24)
	}
}
