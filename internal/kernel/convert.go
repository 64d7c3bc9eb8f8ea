package kernel

import "math"

// BF16ToF32 sets dst[i] = src[i], exactly.
func BF16ToF32(dst []float32, src []uint16) { bf16ToF32(dst, src) }

func bf16ToF32Generic(dst []float32, src []uint16) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(src[i]) << 16)
	}
}

// F32ToBF16 sets dst[i] to src[i] rounded to nearest, ties to even. NaN becomes a quiet NaN.
func F32ToBF16(dst []uint16, src []float32) { f32ToBF16(dst, src) }

func f32ToBF16Generic(dst []uint16, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		u := math.Float32bits(src[i])
		if u&0x7fffffff > 0x7f800000 {
			dst[i] = uint16(u>>16) | 0x40
			continue
		}
		dst[i] = uint16((u + 0x7fff + u>>16&1) >> 16)
	}
}

// F16ToF32 sets dst[i] = src[i], exactly. NaN becomes a quiet NaN.
func F16ToF32(dst []float32, src []uint16) { f16ToF32(dst, src) }

func f16ToF32Generic(dst []float32, src []uint16) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = halfToFloat(src[i])
	}
}

// F32ToF16 sets dst[i] to src[i] rounded to nearest, ties to even; overflow becomes infinite, NaN a
// quiet NaN.
func F32ToF16(dst []uint16, src []float32) { f32ToF16(dst, src) }

func f32ToF16Generic(dst []uint16, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = floatToHalf(src[i])
	}
}

func halfToFloat(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 31:
		if frac != 0 {
			frac |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

func floatToHalf(f float32) uint16 {
	u := math.Float32bits(f)
	sign, a := uint16(u>>16&0x8000), u&0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00 | uint16(a>>13&0x3ff)
	case a >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case a < 0x38800000: // below 2^-14: adding 0.5 aligns the ulp with 2^-24
		s := float32(math.Float32frombits(a) + 0.5)
		return sign | uint16(math.Float32bits(s)-0x3f000000)
	}
	return sign | uint16((a-(112<<23)+0xfff+a>>13&1)>>13)
}
