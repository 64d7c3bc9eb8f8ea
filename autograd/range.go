package autograd

import "trireme/tensor"

// Input is the input of a partial pass, such as a pipeline stage. Another tape or rank owns value
// and keeps it until Backward returns; Gradient then returns its gradient.
func (t *Tape) Input(value *tensor.Tensor) *Var {
	return &Var{Value: value, requiresGrad: t.grad, saved: 1} // saved: no operation in place
}

// Gradient returns the gradient of x, an Input, after Backward; nil if there is none. The caller
// releases it.
func (t *Tape) Gradient(x *Var) *tensor.Tensor {
	if x.grad == nil {
		return nil
	}
	g := t.own(x.grad)
	x.grad = nil
	return g.t
}

// Seed sets the gradient of y, the result of a partial pass, to dy of the same shape before
// Backward. The tape takes over dy, and may free y at once: the caller must not read it afterwards.
func (t *Tape) Seed(y *Var, dy *tensor.Tensor) {
	t.close(y)
	t.accumulate(y, &gradient{dy, 1})
}
