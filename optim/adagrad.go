package optim

import "trireme/tensor"

// Adagrad is torch.optim.Adagrad. Weight decay is added to the gradient.
type Adagrad struct {
	// Decay divides the learning rate of update t by 1 + (t-1)*Decay.
	Decay float64
	// Initial is the initial sum of squares.
	Initial, Eps float64
}

var _ Elementwise = Adagrad{}

func (Adagrad) Name() string { return "adagrad" }

func (Adagrad) Slots() []Slot { return slots("sum") }

// Hyper includes the decayed learning rate.
func (o Adagrad) Hyper(lr, weightDecay float64, t int) []float64 {
	h := []float64{tensor.InputLR: lr / (1 + float64(t-1)*o.Decay), tensor.InputDecay: weightDecay, tensor.AdagradInitial: 0}
	if t == 1 {
		h[tensor.AdagradInitial] = o.Initial
	}
	return h
}

func (o Adagrad) Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor) {
	elementwise(b, tensor.Adagrad{Eps: o.Eps}, s, hyper, scalars)
}
