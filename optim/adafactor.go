package optim

import (
	"math"

	"trireme/tensor"
	"trireme/tensor/compose"
)

// Adafactor factors the second moment of a matrix into row and column means (Shazeer and Stern
// 2018, as in transformers.Adafactor). Parameters that are not matrices keep it per element.
type Adafactor struct {
	Eps1, Eps2     float64 // added to squares; lower bound of the parameter scale
	ClipThreshold  float64 // on the root mean square of the direction
	DecayRate      float64 // beta2 of update t is 1 - t^DecayRate
	Beta1          float64 // momentum of updates; 0 for none
	ScaleParameter bool    // scale the learning rate by the parameter's root mean square
	RelativeStep   bool    // learning rate min(1e-2, 1/sqrt(t)) instead of the schedule's
	WarmupInit     bool    // with 1e-6*t in place of 1e-2
}

// factored is Adafactor for matrices.
type factored struct{ Adafactor }

var (
	_ NormScaled = Adafactor{}
	_ NormScaled = factored{}
	_ Matrixwise = factored{}
)

func (Adafactor) Name() string { return "adafactor" }

// For returns the variant for p.
func (o Adafactor) For(p Param) Optimizer {
	if len(p.Shape) == 2 {
		return factored{o}
	}
	return o
}

// Slots are the second moment and, with Beta1, the momentum.
func (o Adafactor) Slots() []Slot { return append(slots("exp_avg_sq"), o.mean()...) }

func (o Adafactor) mean() []Slot {
	if o.Beta1 == 0 {
		return nil
	}
	return slots("exp_avg")
}

// Slots are the row and column means and, with Beta1, the momentum.
func (o factored) Slots() []Slot {
	own := slots("exp_avg_sq_row", "exp_avg_sq_col")
	own[0].MatrixShape = func(s tensor.Shape) tensor.Shape { return s[:1] }
	own[1].MatrixShape = func(s tensor.Shape) tensor.Shape { return s[1:2] }
	return append(own, o.mean()...)
}

// Hyper includes beta2.
func (o Adafactor) Hyper(lr, weightDecay float64, t int) []float64 {
	if o.RelativeStep {
		lr = 1e-2
		if o.WarmupInit {
			lr = 1e-6 * float64(t)
		}
		lr = min(lr, 1/math.Sqrt(float64(t)))
	}
	return []float64{tensor.InputLR: lr, tensor.InputDecay: weightDecay, tensor.DescentScale: 1, tensor.AdafactorBeta2: 1 - math.Pow(float64(t), o.DecayRate)}
}

// Direction is the gradient divided by the root of its second moment.
func (o Adafactor) Direction(b tensor.Backend, d *tensor.Tensor, s Slice, hyper, scalars *tensor.Tensor) {
	b.Update(tensor.Adafactor{Eps: o.Eps1}, d, s.State[:1], s.G, s.Ends, hyper, scalars)
}

// Direction is the gradient.
func (o factored) Direction(b tensor.Backend, d *tensor.Tensor, s Slice, _, scalars *tensor.Tensor) {
	b.ScaleBy(d, s.G, scalars.Flat(tensor.ScalarScale, tensor.ScalarScale+1))
}

// Precondition divides a gradient by the root of the second moment that its row and column means
// estimate.
func (o factored) Precondition(b tensor.Backend, m Matrix, hyper, scalars *tensor.Tensor) {
	s := compose.NewScope(b)
	defer s.Release()
	rows, columns := m.D.Rows(), m.D.Width()
	apply := s.With(scalars.Flat(tensor.ScalarApply, tensor.ScalarApply+1), tensor.Ne, 0)
	keep := column(hyper, tensor.AdafactorBeta2)
	squares := s.Mul(m.D, m.D)
	b.Binary(squares, squares, s.Scalar(tensor.F32, o.Eps1), tensor.Add)
	// mean updates a state with the means of squares along dim; each is over n numbers.
	mean := func(state *tensor.Tensor, dim, n int) *tensor.Tensor {
		sums := s.New(tensor.F64, state.Elems())
		b.Reduce(sums, squares, dim, tensor.Add, tensor.F64)
		next := s.Add(s.Mul(state, keep), s.Mul(s.With(sums, tensor.Div, float64(n)), s.RSub(1, keep)))
		s.Put(state, s.Select(apply, next, state), false)
		return s.As(tensor.F64, state)
	}
	row, col := mean(m.State[0], 1, columns), mean(m.State[1], 0, rows)
	scale := s.Unary(s.Div(s.Mean(row.Reshape(1, rows)), row), tensor.Sqrt)
	b.Binary(m.D, m.D, scale.Reshape(rows, 1), tensor.Mul)
	b.Binary(m.D, m.D, s.Unary(col, tensor.Sqrt).Reshape(1, columns), tensor.Div)
}

// AdjustRates scales the learning rate by the parameter's scale and clips the direction.
func (o Adafactor) AdjustRates(b tensor.Backend, rates *tensor.Tensor, n Norms) {
	s := compose.NewScope(b)
	defer s.Release()
	rms := func(squares *tensor.Tensor) *tensor.Tensor { return s.Unary(s.Div(squares, n.Count), tensor.Sqrt) }
	if lr := column(rates, tensor.InputLR); o.ScaleParameter {
		b.Copy(lr, s.Mul(lr, s.With(rms(n.P), tensor.Max, o.Eps2)))
	}
	b.Copy(column(rates, tensor.DescentScale), s.Div(s.Scalar(tensor.F64, 1), s.With(s.With(rms(n.D), tensor.Div, o.ClipThreshold), tensor.Max, 1)))
}

// Apply follows the direction or, with Beta1, its momentum.
func (o Adafactor) Apply(b tensor.Backend, d *tensor.Tensor, s Slice, rates, scalars *tensor.Tensor) {
	descend(b, o.Beta1, d, s, s.State[1:], rates, scalars)
}

// Apply follows the direction or, with Beta1, its momentum.
func (o factored) Apply(b tensor.Backend, d *tensor.Tensor, s Slice, rates, scalars *tensor.Tensor) {
	descend(b, o.Beta1, d, s, s.State, rates, scalars)
}
