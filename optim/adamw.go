package optim

import (
	"math"

	"trireme/tensor"
)

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019, as in torch.optim.AdamW).
type AdamW struct {
	Beta1, Beta2, Eps float64
	// L2 adds weight decay to the gradient (torch.optim.Adam, Kingma and Ba 2015).
	L2 bool
	// Uncorrected disables bias correction.
	Uncorrected bool
}

var _ Elementwise = AdamW{}

func (o AdamW) Name() string {
	if o.L2 {
		return "adam"
	}
	return "adamw"
}

func (AdamW) Slots() []Slot { return slots("exp_avg", "exp_avg_sq") }

// Hyper includes the bias corrections.
func (o AdamW) Hyper(lr, weightDecay float64, t int) []float64 {
	h := []float64{tensor.InputLR: lr, tensor.InputDecay: weightDecay, tensor.AdamBias1: 1, tensor.AdamBias2: 1}
	if !o.Uncorrected {
		h[tensor.AdamBias1], h[tensor.AdamBias2] = 1-math.Pow(o.Beta1, float64(t)), 1-math.Pow(o.Beta2, float64(t))
	}
	return h
}

func (o AdamW) Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor) {
	elementwise(b, tensor.AdamW{Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, L2: o.L2}, s, hyper, scalars)
}
