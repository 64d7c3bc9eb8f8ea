package optim

import "trireme/tensor"

// Tensorwise is an optimizer whose update of an element depends on its whole parameter. Package parallel
// takes it through an update of a flat in order: Direction, Whole, Rates, Apply. Each works on this
// rank's part alone; between them ranks gather directions and add up norms.
type Tensorwise interface {
	Optimizer
	// Direction writes to d (F32 [n]) where a slice would move, and changes element-wise state. Where
	// scalars say that the step does not apply d is left undefined.
	Direction(b tensor.Backend, d *tensor.Tensor, s Slice, hyper, scalars *tensor.Tensor)
	// Apply moves a slice along d. Its groups are parameters, with a row of rates for each.
	Apply(b tensor.Backend, d *tensor.Tensor, s Slice, rates, scalars *tensor.Tensor)
}

// AsTensorwise is o as a Tensorwise optimizer, without the average that it may keep beside it.
func AsTensorwise(o Optimizer) (Tensorwise, bool) {
	if a, ok := o.(Averaged); ok {
		o = a.Optimizer
	}
	j, ok := o.(Tensorwise)
	return j, ok
}

// Matrixwise is a Tensorwise optimizer that needs whole matrices.
type Matrixwise interface {
	Tensorwise
	// Precondition replaces the direction m.D. hyper is the row of the matrix's group, F64 [1, n].
	Precondition(b tensor.Backend, m Matrix, hyper, scalars *tensor.Tensor)
}

// Matrix is a parameter's direction, whole.
type Matrix struct {
	D     *tensor.Tensor   // F32 [rows, columns]
	State []*tensor.Tensor // in order of Slots: those with Of
}

// NormScaled is a Tensorwise optimizer whose rates depend on parameters' norms.
type NormScaled interface {
	Tensorwise
	// AdjustRates changes rates (F64 [parameters, n]), which are the inputs of each parameter's group.
	AdjustRates(b tensor.Backend, rates *tensor.Tensor, n Norms)
}

// Norms are numbers of each parameter, F64 [parameters, 1].
type Norms struct {
	P, D  *tensor.Tensor // sums of squares of the parameter and of its direction
	Count *tensor.Tensor // elements
}

// descend follows a direction, or with beta a mean of directions, which is state.
func descend(b tensor.Backend, beta float64, d *tensor.Tensor, s Slice, state []*tensor.Tensor, rates, scalars *tensor.Tensor) {
	b.Update(tensor.Descent{Beta: beta}, s.P, state, d, s.Ends, rates, scalars)
}

// column is column i of a matrix.
func column(t *tensor.Tensor, i int) *tensor.Tensor { return t.Cols(i, i+1) }
