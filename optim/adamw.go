package optim

import (
	"math"

	"trireme/tensor"
)

// Slice is a run of one parameter's elements with its gradient and moments, F32 [n] each.
type Slice struct {
	P, M, V, G *tensor.Tensor
	Decay      bool // weight decay applies
}

// AdamW is the optimizer (Loshchilov and Hutter 2019, as torch.optim.AdamW writes it).
type AdamW struct {
	Beta1, Beta2, Eps, WeightDecay float64
}

// Hyper are AdamW's inputs of update t (1 is the first) at learning rate lr, in the order of
// tensor.Adam*.
func (a AdamW) Hyper(lr float64, t int) []float64 {
	h := make([]float64, tensor.AdamCount)
	h[tensor.AdamLR] = lr
	h[tensor.AdamBias1] = 1 - math.Pow(a.Beta1, float64(t))
	h[tensor.AdamBias2] = 1 - math.Pow(a.Beta2, float64(t))
	return h
}

// Step updates the slices by their gradients times scalars[ScalarScale], or leaves them as
// they are where scalars[ScalarApply] is 0.
func (a AdamW) Step(b tensor.Backend, slices []Slice, hyper, scalars *tensor.Tensor) {
	for _, s := range slices {
		c := tensor.AdamWParams{Beta1: a.Beta1, Beta2: a.Beta2, Eps: a.Eps}
		if s.Decay {
			c.WeightDecay = a.WeightDecay
		}
		b.AdamW(s.P, s.M, s.V, s.G, hyper, scalars, c)
	}
}
