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
