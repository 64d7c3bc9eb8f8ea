package optim

import "trireme/tensor"

// SGD is torch.optim.SGD: stochastic gradient descent with momentum. Weight decay is added to the
// gradient.
type SGD struct {
	Momentum, Dampening float64
	Nesterov            bool // requires Momentum and no Dampening
}

var _ Elementwise = SGD{}

func (SGD) Name() string { return "sgd" }

// Slots is the momentum, if any.
func (o SGD) Slots() []Slot {
	if o.Momentum == 0 {
		return nil
	}
	return slots("momentum_buffer")
}

// Hyper includes the weight of a new gradient. The first gradient is not dampened.
func (o SGD) Hyper(lr, weightDecay float64, t int) []float64 {
	fresh := 1 - o.Dampening
	if t == 1 {
		fresh = 1
	}
	return []float64{tensor.InputLR: lr, tensor.InputDecay: weightDecay, tensor.SGDGradWeight: fresh}
}

func (o SGD) Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor) {
	elementwise(b, tensor.SGD{Momentum: o.Momentum, Nesterov: o.Nesterov}, s, hyper, scalars)
}
