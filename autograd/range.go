package autograd

import "trireme/tensor"

// Input is a value that a pass over a part of a model begins with: another tape, or another rank,
// made it, and keeps it until Backward returns. Gradient then has its gradient.
func (t *Tape) Input(value *tensor.Tensor) *Var {
	return &Var{Value: value, wants: t.grad, saved: 1} // nothing is done to it in place
}

// Gradient is the gradient of x, an Input, after Backward; nil where nothing read x. The caller
// releases it.
func (t *Tape) Gradient(x *Var) *tensor.Tensor {
	if x.grad == nil {
		return nil
	}
	g := t.own(x.grad)
	x.grad = nil
	return g.t
}

// Seed begins the gradient of y, with which a pass over a part of a model ended, as dy of the same
// shape, before Backward. The tape releases dy, and y: whoever read its value is done.
func (t *Tape) Seed(y *Var, dy *tensor.Tensor) {
	t.close(y)
	t.give(y, &gradient{dy, 1})
}
