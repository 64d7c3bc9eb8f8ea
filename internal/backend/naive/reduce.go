package naive

import (
	"math"
	"math/big"

	"trireme/tensor"
)

// lowest is the binary exponent of an exact accumulator's first word.
const lowest = -352

const digits = tensor.ExactWords - 1

// ExactSquares adds sums of squares of blocks.
func (b *Backend) ExactSquares(acc, x, ends *tensor.Tensor) {
	u := read(x)
	if ends != nil {
		lo := 0
		for i, end := range tensor.Host[int64](ends) {
			b.ExactSquares(acc.Flat(i*tensor.ExactWords, (i+1)*tensor.ExactWords), x.Flat(lo, int(end)), nil)
			lo = int(end)
		}
		return
	}
	for lo := 0; lo < len(u); lo += tensor.SumBlock {
		s := 0.0
		for _, v := range u[lo:min(len(u), lo+tensor.SumBlock)] {
			s += v * v
		}
		addExact(tensor.Host[int64](acc), s)
	}
}

// ExactAdd adds the elements of x.
func (b *Backend) ExactAdd(acc, x *tensor.Tensor) {
	for _, v := range read(x) {
		addExact(tensor.Host[int64](acc), v)
	}
}

// addExact adds v's 53 bits in words of 32, by integers as wide as they need to be.
func addExact(acc []int64, v float64) {
	if !(math.Abs(v) < math.Ldexp(1, 32*digits+lowest)) {
		acc[digits]++
		return
	}
	frac, exp := math.Frexp(v)
	n := big.NewInt(int64(math.Ldexp(frac, 53)))
	if shift := exp - 53 - lowest; shift >= 0 {
		n.Lsh(n, uint(shift))
	} else {
		n.Rsh(n, uint(-shift))
	}
	sign := int64(n.Sign())
	n.Abs(n)
	mask := big.NewInt(math.MaxUint32)
	for i := 0; i < digits; i++ {
		acc[i] += sign * new(big.Int).And(n, mask).Int64()
		n.Rsh(n, 32)
	}
}

func exactValue(acc []int64) float64 {
	if acc[digits] != 0 {
		return math.NaN()
	}
	sum := new(big.Int)
	for i := digits - 1; i >= 0; i-- {
		sum.Lsh(sum, 32)
		sum.Add(sum, big.NewInt(acc[i]))
	}
	f := new(big.Float).SetPrec(1024).SetInt(sum)
	f.SetMantExp(f, lowest)
	v, _ := f.Float64()
	return v
}

// ExactValues reads accumulators.
func (b *Backend) ExactValues(out, acc *tensor.Tensor) {
	o, words := tensor.Host[float64](out), tensor.Host[int64](acc)
	for i := range o {
		o[i] = exactValue(words[i*tensor.ExactWords:][:tensor.ExactWords])
	}
}

// StepScalars turns sums into the step's numbers.
func (b *Backend) StepScalars(out, squares, loss, tokens, maxNorm, begin *tensor.Tensor) {
	o, n := tensor.Host[float64](out), float64(tensor.Host[int64](tokens)[0])
	clear(o)
	o[tensor.ScalarTokens] = n
	if n <= 0 {
		return
	}
	scale := 1.0
	if begin != nil {
		scale = tensor.Host[float64](begin)[0]
	}
	norm := math.Sqrt(exactValue(tensor.Host[int64](squares))) / n / scale
	mean := exactValue(tensor.Host[int64](loss)) / n
	o[tensor.ScalarLoss], o[tensor.ScalarGradNorm] = mean, norm
	if finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }; !finite(norm) || !finite(mean) {
		return
	}
	coef := 1.0
	if limit := tensor.Host[float64](maxNorm)[0]; limit > 0 {
		coef = math.Min(1, limit/(norm+1e-6))
	}
	o[tensor.ScalarScale], o[tensor.ScalarApply] = coef/n/scale, 1
}

// UpdateLossScale is torch's scaler with DeepSpeed's hysteresis and least scale.
func (b *Backend) UpdateLossScale(state, scalars *tensor.Tensor, p tensor.LossScaleParams) {
	s, o := tensor.Host[float64](state), tensor.Host[float64](scalars)
	if o[tensor.ScalarTokens] == 0 {
		return
	}
	scale, good, left := s[tensor.LossScaleScale], s[tensor.LossScaleGood], s[tensor.LossScaleHysteresis]
	if o[tensor.ScalarApply] == 0 {
		good = 0
		if left <= 1 {
			scale = math.Max(p.Min, scale*p.Backoff)
		} else {
			left--
		}
	} else {
		good++
		if p.Consecutive {
			left = float64(p.Hysteresis)
		}
		if good == float64(p.Window) {
			good, left = 0, float64(p.Hysteresis)
			scale *= p.Growth
		}
	}
	if scale <= math.MaxFloat32 {
		s[tensor.LossScaleScale] = scale
	}
	s[tensor.LossScaleBegin] = s[tensor.LossScaleScale] * p.Unit
	s[tensor.LossScaleGood], s[tensor.LossScaleHysteresis] = good, left
}
