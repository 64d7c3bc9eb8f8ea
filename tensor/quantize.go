package tensor

import "math"

// QuantBlock is the number of adjacent weights of a row that share a scale. A last block may be shorter.
const QuantBlock = 64

// QuantBlocks is the number of scales of a row of n weights.
func QuantBlocks(n int) int { return (n + QuantBlock - 1) / QuantBlock }

// Quantize stores rows of the given width as 8-bit weights: the scale of a block is its largest magnitude / 127, and
// byte i of it is x[i] / scale, rounded to nearest, in two's complement. Blocks of magnitudes below 2^-119 are 0. A
// block with a NaN or an infinity becomes NaN. len(scales) is QuantBlocks(width) per row.
func Quantize(w []uint8, scales, x []float32, width int) {
	QuantizeBlocks(w, scales, x, width, QuantBlock)
}

// QuantizeBlocks is Quantize in blocks of another length.
func QuantizeBlocks(w []uint8, scales, x []float32, width, block int) {
	at := 0
	for lo := 0; lo < len(x); lo += width {
		row, to := x[lo:lo+width], w[lo:lo+width]
		for b := 0; b < width; b += block {
			hi := min(b+block, width)
			scales[at] = quantizeBlock(to[b:hi], row[b:hi])
			at++
		}
	}
}

func quantizeBlock(w []uint8, x []float32) (scale float32) {
	var bits uint32 // bits of a magnitude have its order
	for _, v := range x {
		bits = max(bits, math.Float32bits(v)&^(1<<31))
	}
	top := math.Float32frombits(bits)
	switch {
	case bits >= 0x7f800000:
		for i := range w {
			w[i] = 1
		}
		return float32(math.NaN())
	case top < 0x1p-119: // 1/scale would not be finite
		clear(w)
		return 0
	}
	scale = top / 127
	inverse := 1 / scale
	const round = 0x1.8p23 // floats of this size are integers
	for i, v := range x {
		w[i] = uint8(math.Float32bits(float32(v*inverse) + round))
	}
	return scale
}
