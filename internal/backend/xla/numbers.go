package xla

import (
	"math"

	"trireme/tensor"
)

// extreme is the neutral element of Max or Min.
func extreme(e elem, op tensor.BinaryOp) float64 {
	switch {
	case e.float():
		return math.Inf([2]int{-1, 1}[op-tensor.Max])
	case e == "i64":
		return [2]float64{math.MinInt64, math.MaxInt64}[op-tensor.Max]
	case e == "i32":
		return [2]float64{math.MinInt32, math.MaxInt32}[op-tensor.Max]
	}
	return [2]float64{0, math.MaxUint8}[op-tensor.Max]
}

// rounded is the number that a constant v of a type has.
func rounded(e elem, v float64) float64 {
	switch {
	case e == boolean:
		if v != 0 {
			return 1
		}
		return 0
	case !e.float():
		return float64(integer(v))
	case e == "f32":
		return float64(float32(v))
	case e == "bf16":
		return nearest(v, 8, -133, 0x1p128)
	case e == "f16":
		return nearest(v, 11, -24, 0x1p16)
	}
	return v
}

// nearest is the number of a float type that is nearest to v. The type has bits of precision, multiples
// of 2^least, and infinity from limit on.
func nearest(v float64, bits, least int, limit float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	_, exp := math.Frexp(v)
	unit := math.Ldexp(1, max(exp-bits, least))
	n := math.RoundToEven(v/unit) * unit
	if math.Abs(n) >= limit {
		return math.Inf(int(math.Copysign(1, v)))
	}
	return n
}
