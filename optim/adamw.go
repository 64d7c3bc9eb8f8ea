package optim

import (
	"math"

	"trireme/tensor"
)

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019, as torch.optim.AdamW
// writes it).
type AdamW struct{ Beta1, Beta2, Eps float64 }

var _ Optimizer = AdamW{}

// Name is adamw.
func (AdamW) Name() string { return "adamw" }

// Slots are the first and the second moment.
func (AdamW) Slots() []Slot { return slots("exp_avg", "exp_avg_sq") }

// Hyper has the corrections of moments that begin at 0.
func (a AdamW) Hyper(lr, weightDecay float64, t int) []float64 {
	return []float64{tensor.InputLR: lr, tensor.InputDecay: weightDecay,
		tensor.AdamBias1: 1 - math.Pow(a.Beta1, float64(t)), tensor.AdamBias2: 1 - math.Pow(a.Beta2, float64(t))}
}

// Step is one rule.
func (a AdamW) Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor) {
	elementwise(b, tensor.AdamW(a), s, hyper, scalars)
}
