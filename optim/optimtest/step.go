package optimtest

import (
	"trireme/optim"
	"trireme/tensor"
)

// State allocates an optimizer's state of a parameter, in order of Slots.
func State(b tensor.Backend, o optim.Optimizer, shape tensor.Shape) (state []*tensor.Tensor) {
	for _, s := range o.Slots() {
		n := (shape.Elems() + s.Block - 1) / s.Block
		if s.MatrixShape != nil {
			n = s.MatrixShape(shape).Elems()
		}
		t := b.New(tensor.Optimizer, s.DType, n)
		b.Fill(t, 0)
		state = append(state, t)
	}
	return state
}

// Step updates a parameter of the given shape. s.State is from State. hyper is F64 [1, n].
func Step(b tensor.Backend, o optim.Optimizer, shape tensor.Shape, s optim.Slice, hyper, scalars *tensor.Tensor) {
	j, ok := optim.AsTensorwise(o)
	if !ok {
		o.(optim.Elementwise).Step(b, s, hyper, scalars)
		return
	}
	var m optim.Matrix
	var elements []*tensor.Tensor
	for i, slot := range o.Slots() {
		if slot.MatrixShape != nil {
			m.State = append(m.State, s.State[i])
		} else {
			elements = append(elements, s.State[i])
		}
	}
	s.State = elements
	average, averaged := o.(optim.Averaged)
	inner := s
	if averaged {
		inner = average.Inner(s)
	}
	d := b.New(tensor.Workspace, tensor.F32, s.P.Elems())
	rates, unit := b.New(tensor.Workspace, tensor.F64, hyper.Shape()...), b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
	b.Copy(rates, hyper)
	b.Copy(unit, scalars)
	b.Fill(unit.Flat(tensor.ScalarScale, tensor.ScalarScale+1), 1)
	acc, norms := b.New(tensor.Workspace, tensor.I64, 2*tensor.ExactWords), b.New(tensor.Workspace, tensor.F64, 3)
	b.Fill(acc, 0)
	b.Fill(norms, float64(s.P.Elems()))

	j.Direction(b, d, inner, hyper, scalars)
	b.ExactSquares(acc.Flat(0, tensor.ExactWords), s.P, nil)
	if w, ok := j.(optim.Matrixwise); ok {
		m.D = d.Reshape(shape...)
		w.Precondition(b, m, hyper, scalars)
	}
	if n, ok := j.(optim.NormScaled); ok {
		b.ExactSquares(acc.Flat(tensor.ExactWords, 2*tensor.ExactWords), d, nil)
		b.ExactValues(norms.Flat(0, 2), acc)
		of := func(i int) *tensor.Tensor { return norms.Flat(i, i+1).Reshape(1, 1) }
		n.AdjustRates(b, rates, optim.Norms{P: of(0), D: of(1), Count: of(2)})
	}
	j.Apply(b, d, inner, rates, unit)
	if averaged {
		average.Average(b, s, hyper, scalars)
	}
	for _, t := range []*tensor.Tensor{d, rates, unit, acc, norms} {
		t.Release()
	}
}
