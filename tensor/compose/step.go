package compose

import (
	"math"

	"trireme/tensor"
)

// element is element i of a tensor.
func element(t *tensor.Tensor, i int) *tensor.Tensor { return t.Flat(i, i+1) }

// StepScalars: with n tokens, loss = sum/n, norm = sqrt(squares)/(n lossGrad), scale = 1/(n
// lossGrad), times min(1, limit/(norm + 1e-6)) if there is a limit.
func (o Ops) StepScalars(out, squares, loss, tokens, maxNorm, lossGrad *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	exact := func(acc *tensor.Tensor) *tensor.Tensor {
		v := s.New(tensor.F64, 1)
		o.ExactValues(v, acc)
		return v
	}
	n := s.As(tensor.F64, tokens)
	div := n
	if lossGrad != nil {
		div = s.Mul(n, lossGrad)
	}
	mean, norm := s.Div(exact(loss), n), s.Div(s.Unary(exact(squares), tensor.Sqrt), div)
	clip := s.With(s.Div(maxNorm, s.With(norm, tensor.Add, 1e-6)), tensor.Min, 1)
	scale := s.Div(s.Where(s.With(maxNorm, tensor.Gt, 0), clip, 1), div)
	some := s.With(n, tensor.Gt, 0)
	finite := s.With(s.Add(s.Sub(mean, mean), s.Sub(norm, norm)), tensor.Eq, 0)
	apply := s.Binary(some, finite, tensor.And)
	for i, v := range [tensor.ScalarCount]*tensor.Tensor{
		tensor.ScalarLoss:     s.Where(some, mean, 0),
		tensor.ScalarGradNorm: s.Where(some, norm, 0),
		tensor.ScalarScale:    s.Where(apply, scale, 0),
		tensor.ScalarApply:    apply,
		tensor.ScalarTokens:   n,
	} {
		s.Put(element(out, i), v, false)
	}
}

// UpdateLossScale computes the state for each outcome, and selects.
func (o Ops) UpdateLossScale(state, scalars *tensor.Tensor, p tensor.LossScaleParams) {
	s := NewScope(o.c)
	defer s.Release()
	not := func(x *tensor.Tensor) *tensor.Tensor { return s.With(x, tensor.Xor, 1) }
	and := func(x, y *tensor.Tensor) *tensor.Tensor { return s.Binary(x, y, tensor.And) }
	num := func(v float64) *tensor.Tensor { return s.Scalar(tensor.F64, v) }
	counted := s.With(element(scalars, tensor.ScalarTokens), tensor.Gt, 0)
	over := s.With(element(scalars, tensor.ScalarApply), tensor.Eq, 0)
	scale, good, left := element(state, tensor.LossScaleScale), element(state, tensor.LossScaleGoodSteps), element(state, tensor.LossScaleHysteresis)

	last := s.With(left, tensor.Le, 1)
	falls, absorbed := and(over, last), and(over, not(last))
	more := s.With(good, tensor.Add, 1)
	grows := and(not(over), s.With(more, tensor.Ge, float64(p.Window)))
	reset := grows // of the hysteresis
	if p.Consecutive {
		reset = not(over)
	}
	newScale := s.Select(falls, s.With(s.With(scale, tensor.Mul, p.Backoff), tensor.Max, p.Min), s.Select(grows, s.With(scale, tensor.Mul, p.Growth), scale))
	newScale = s.Select(s.With(newScale, tensor.Le, math.MaxFloat32), newScale, scale)
	newGood := s.Select(s.Binary(over, grows, tensor.Or), num(0), more)
	newLeft := s.Select(absorbed, s.With(left, tensor.Sub, 1), s.Select(reset, num(float64(p.Hysteresis)), left))
	for i, v := range [tensor.LossScaleCount]*tensor.Tensor{
		tensor.LossScaleGrad:       s.With(newScale, tensor.Mul, p.Unit),
		tensor.LossScaleScale:      newScale,
		tensor.LossScaleGoodSteps:  newGood,
		tensor.LossScaleHysteresis: newLeft,
	} {
		s.Put(element(state, i), s.Select(counted, v, element(state, i)), false)
	}
}
