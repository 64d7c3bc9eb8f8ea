package kernel

import "math"

// xentChunk is the number of exponentials summed in float32 lanes before the sum continues in float64.
const xentChunk = 512

// CrossEntropy returns the loss of one row of logits, log-sum-exp less the label's logit, and
// replaces the row by softmax - onehot(label). Without grad the row is left undefined.
func CrossEntropy(row []float32, label int, grad bool) float64 {
	at := float64(row[label])
	top := maximum(row)
	var s float64
	for lo := 0; lo < len(row); lo += xentChunk {
		s += expSum(row[lo:min(lo+xentChunk, len(row))], top)
	}
	if grad {
		scale(row, float32(1/s))
		row[label]--
	}
	return float64(top) + math.Log(s) - at
}

// maximumGeneric returns the largest x[i]; the result for a row with NaN is undefined.
func maximumGeneric(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

// expSumGeneric sets x[i] = exp(x[i]-top) and returns their sum. Assembly flushes subnormals to 0.
func expSumGeneric(x []float32, top float32) float64 {
	var s float64
	for i, v := range x {
		e := math.Exp(float64(v - top))
		x[i] = float32(e)
		s += e
	}
	return s
}

// scaleGeneric scales x by s.
func scaleGeneric(x []float32, s float32) {
	for i := range x {
		x[i] *= s
	}
}
