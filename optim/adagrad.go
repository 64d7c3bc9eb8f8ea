package optim

import "trireme/tensor"

// Adagrad is torch.optim.Adagrad. Weight decay is added to the gradient.
type Adagrad struct {
	// Decay of the learning rate: that of update t is divided by 1 + (t-1)*Decay.
	Decay float64
	// Initial is what the sum of squares begins with.
	Initial, Eps float64
}

var _ Elementwise = Adagrad{}

// Name is adagrad.
func (Adagrad) Name() string { return "adagrad" }

// Slots is the sum of squares.
func (Adagrad) Slots() []Slot { return slots("sum") }

// Hyper has the decayed learning rate.
func (o Adagrad) Hyper(lr, weightDecay float64, t int) []float64 {
	h := []float64{tensor.InputLR: lr / (1 + float64(t-1)*o.Decay), tensor.InputDecay: weightDecay, tensor.AdagradInitial: 0}
	if t == 1 {
		h[tensor.AdagradInitial] = o.Initial
	}
	return h
}

// Step is one rule.
func (o Adagrad) Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor) {
	elementwise(b, tensor.Adagrad{Eps: o.Eps}, s, hyper, scalars)
}
