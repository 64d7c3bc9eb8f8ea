package optim

import "trireme/tensor"

// Optimizer is an update rule with its constants: an immutable, comparable value, either
// Elementwise or Tensorwise. Parameters with equal optimizers are updated together.
type Optimizer interface {
	// Name returns the name in configurations, such as adamw.
	Name() string
	// Slots lists the state per parameter, initially 0.
	Slots() []Slot
	// Hyper returns a group's inputs for update t (from 1), indexed as the rule's (package tensor).
	// lr includes the group's factor. The length is constant.
	Hyper(lr, weightDecay float64, t int) []float64
}

// Elementwise is an optimizer that updates each element independently.
type Elementwise interface {
	Optimizer
	// Step updates a slice with its gradients times scalars[ScalarScale], or does nothing if
	// scalars[ScalarApply] is 0. Row i of hyper (F64) has the inputs of group i.
	Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor)
}

// Slot is a state tensor per parameter.
type Slot struct {
	// Name is torch's, such as exp_avg. Checkpoints, plans and records use it.
	Name  string
	DType tensor.DType
	// Block is the number of parameter elements per slot element: 1, or the block size of a scale.
	Block int
	// MatrixShape returns the slot's shape for a matrix (see Matrixwise), kept by the ranks that
	// compute the matrix; nil for element-wise slots.
	MatrixShape func(tensor.Shape) tensor.Shape
}

// Slice is consecutive elements of parameters with gradients and state, sorted by group.
type Slice struct {
	P     *tensor.Tensor   // F32 [n]
	State []*tensor.Tensor // element-wise Slots in order; n/Block elements each
	G     *tensor.Tensor   // F32 [n]
	Ends  *tensor.Tensor   // I64 [groups]: end of each group; the last is n
}

// elementwise updates a slice by one backend rule.
func elementwise(b tensor.Backend, rule tensor.UpdateRule, s Slice, hyper, scalars *tensor.Tensor) {
	b.Update(rule, s.P, s.State, s.G, s.Ends, hyper, scalars)
}

// slots returns float32 slots with one element per parameter element.
func slots(names ...string) []Slot {
	out := make([]Slot, len(names))
	for i, name := range names {
		out[i] = Slot{Name: name, DType: tensor.F32, Block: 1}
	}
	return out
}
