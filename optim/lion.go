package optim

import "trireme/tensor"

// Lion follows the sign of the interpolated momentum (Chen et al. 2023).
type Lion struct{ Beta1, Beta2 float64 }

var _ Elementwise = Lion{}

func (Lion) Name() string { return "lion" }

func (Lion) Slots() []Slot { return slots("exp_avg") }

func (Lion) Hyper(lr, weightDecay float64, _ int) []float64 {
	return []float64{tensor.InputLR: lr, tensor.InputDecay: weightDecay}
}

func (o Lion) Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor) {
	elementwise(b, tensor.Lion(o), s, hyper, scalars)
}
