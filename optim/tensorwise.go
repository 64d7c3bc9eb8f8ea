package optim

import "trireme/tensor"

// Tensorwise is an optimizer whose update of an element depends on the full parameter. Package
// parallel calls its phases in order: Direction, Precondition, AdjustRates, Apply. Each runs on
// this rank's part; in between, ranks all-gather directions and sum norms.
type Tensorwise interface {
	Optimizer
	// Direction writes a slice's update direction to d (F32 [n]) and updates element-wise state. d
	// is undefined if scalars say that the step does not apply.
	Direction(b tensor.Backend, d *tensor.Tensor, s Slice, hyper, scalars *tensor.Tensor)
	// Apply moves a slice along d. Its groups are single parameters, with a row of rates each.
	Apply(b tensor.Backend, d *tensor.Tensor, s Slice, rates, scalars *tensor.Tensor)
}

// AsTensorwise returns o as a Tensorwise optimizer, without its Averaged wrapper.
func AsTensorwise(o Optimizer) (Tensorwise, bool) {
	if a, ok := o.(Averaged); ok {
		o = a.Optimizer
	}
	j, ok := o.(Tensorwise)
	return j, ok
}

// Matrixwise is a Tensorwise optimizer that needs full matrices.
type Matrixwise interface {
	Tensorwise
	// Precondition replaces the direction m.D. hyper is the row of the matrix's group, F64 [1, n].
	Precondition(b tensor.Backend, m Matrix, hyper, scalars *tensor.Tensor)
}

// Matrix is a parameter's full direction.
type Matrix struct {
	D     *tensor.Tensor   // F32 [rows, columns]
	State []*tensor.Tensor // Slots with MatrixShape, in order
}

// NormScaled is a Tensorwise optimizer whose rates depend on norms of parameters.
type NormScaled interface {
	Tensorwise
	// AdjustRates modifies rates (F64 [parameters, n]), the inputs of each parameter's group.
	AdjustRates(b tensor.Backend, rates *tensor.Tensor, n Norms)
}

// Norms holds one number per parameter, F64 [parameters, 1].
type Norms struct {
	P, D  *tensor.Tensor // squared norms of parameter and direction
	Count *tensor.Tensor // number of elements
}

// descend follows a direction or, with beta, its momentum in state.
func descend(b tensor.Backend, beta float64, d *tensor.Tensor, s Slice, state []*tensor.Tensor, rates, scalars *tensor.Tensor) {
	b.Update(tensor.Descent{Beta: beta}, s.P, state, d, s.Ends, rates, scalars)
}

// column returns column i of a matrix.
func column(t *tensor.Tensor, i int) *tensor.Tensor { return t.Cols(i, i+1) }
