package optim

import (
	"math"

	"trireme/tensor"
	"trireme/tensor/compose"
)

// Adafactor keeps of a matrix's second moment a mean of each row and of each column (Shazeer and Stern
// 2018, as transformers.Adafactor computes it). A parameter with another number of dimensions has
// the second moment of each element.
type Adafactor struct {
	Eps1, Eps2     float64 // added to squares; least scale of a parameter
	ClipThreshold  float64 // of the root mean square of a direction
	DecayRate      float64 // the second moment's decay rate is 1 - t^DecayRate
	Beta1          float64 // of a mean of updates; 0 for none
	ScaleParameter bool    // the learning rate is relative to the parameter's root mean square
	RelativeStep   bool    // the learning rate is min(1e-2, 1/sqrt(t)), whatever the schedule says
	WarmupInit     bool    // and begins at 1e-6*t
}

// factored is Adafactor of matrices.
type factored struct{ Adafactor }

var (
	_ NormScaled = Adafactor{}
	_ NormScaled = factored{}
	_ Matrixwise = factored{}
)

// Name is adafactor.
func (Adafactor) Name() string { return "adafactor" }

// For is the variant for p.
func (o Adafactor) For(p Param) Optimizer {
	if len(p.Shape) == 2 {
		return factored{o}
	}
	return o
}

// Slots are the second moment and the mean of updates, if there is one.
func (o Adafactor) Slots() []Slot { return append(slots("exp_avg_sq"), o.mean()...) }

func (o Adafactor) mean() []Slot {
	if o.Beta1 == 0 {
		return nil
	}
	return slots("exp_avg")
}

// Slots are the means of rows and columns, and that of updates, if there is one.
func (o factored) Slots() []Slot {
	own := slots("exp_avg_sq_row", "exp_avg_sq_col")
	own[0].MatrixShape = func(s tensor.Shape) tensor.Shape { return s[:1] }
	own[1].MatrixShape = func(s tensor.Shape) tensor.Shape { return s[1:2] }
	return append(own, o.mean()...)
}

// Hyper has the decay rate of second moments.
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

// Direction is the gradient by the root of its second moment.
func (o Adafactor) Direction(b tensor.Backend, d *tensor.Tensor, s Slice, hyper, scalars *tensor.Tensor) {
	b.Update(tensor.Adafactor{Eps: o.Eps1}, d, s.State[:1], s.G, s.Ends, hyper, scalars)
}

// Direction is the gradient.
func (o factored) Direction(b tensor.Backend, d *tensor.Tensor, s Slice, _, scalars *tensor.Tensor) {
	b.ScaleBy(d, s.G, scalars.Flat(tensor.ScalarScale, tensor.ScalarScale+1))
}

// Precondition divides a gradient by the root of what its row's and its column's means make of the second
// moment.
func (o factored) Precondition(b tensor.Backend, m Matrix, hyper, scalars *tensor.Tensor) {
	s := compose.NewScope(b)
	defer s.Release()
	rows, columns := m.D.Rows(), m.D.Width()
	apply := s.With(scalars.Flat(tensor.ScalarApply, tensor.ScalarApply+1), tensor.Ne, 0)
	keep := column(hyper, tensor.AdafactorBeta2)
	squares := s.Mul(m.D, m.D)
	b.Binary(squares, squares, s.Scalar(tensor.F32, o.Eps1), tensor.Add)
	// mean moves a state on by the means of squares along dim, of so many numbers each.
	mean := func(state *tensor.Tensor, dim, of int) *tensor.Tensor {
		sums := s.New(tensor.F64, state.Elems())
		b.Reduce(sums, squares, dim, tensor.Add, tensor.F64)
		next := s.Add(s.Mul(state, keep), s.Mul(s.With(sums, tensor.Div, float64(of)), s.RSub(1, keep)))
		s.Put(state, s.Select(apply, next, state), false)
		return s.As(tensor.F64, state)
	}
	row, col := mean(m.State[0], 1, columns), mean(m.State[1], 0, rows)
	scale := s.Unary(s.Div(s.Mean(row.Reshape(1, rows)), row), tensor.Sqrt)
	b.Binary(m.D, m.D, scale.Reshape(rows, 1), tensor.Mul)
	b.Binary(m.D, m.D, s.Unary(col, tensor.Sqrt).Reshape(1, columns), tensor.Div)
}

// AdjustRates scale the learning rate by the parameter, and the direction where it is long.
func (o Adafactor) AdjustRates(b tensor.Backend, rates *tensor.Tensor, n Norms) {
	s := compose.NewScope(b)
	defer s.Release()
	rms := func(squares *tensor.Tensor) *tensor.Tensor { return s.Unary(s.Div(squares, n.Count), tensor.Sqrt) }
	if lr := column(rates, tensor.InputLR); o.ScaleParameter {
		b.Copy(lr, s.Mul(lr, s.With(rms(n.P), tensor.Max, o.Eps2)))
	}
	b.Copy(column(rates, tensor.DescentScale), s.Div(s.Scalar(tensor.F64, 1), s.With(s.With(rms(n.D), tensor.Div, o.ClipThreshold), tensor.Max, 1)))
}

// Apply follows the direction, or a mean of updates.
func (o Adafactor) Apply(b tensor.Backend, d *tensor.Tensor, s Slice, rates, scalars *tensor.Tensor) {
	descend(b, o.Beta1, d, s, s.State[1:], rates, scalars)
}

// Apply follows the direction, or a mean of updates.
func (o factored) Apply(b tensor.Backend, d *tensor.Tensor, s Slice, rates, scalars *tensor.Tensor) {
	descend(b, o.Beta1, d, s, s.State, rates, scalars)
}
