package optim

import "trireme/tensor"

// Optimizer is an update rule with its constants: an immutable, comparable value. Parameters whose
// optimizers are equal are updated together. It is an Elementwise or a Tensorwise optimizer.
type Optimizer interface {
	// Name is the optimizer's name in configurations, for example adamw.
	Name() string
	// Slots lists the state that the optimizer keeps of each parameter. It begins at 0.
	Slots() []Slot
	// Hyper is a group's inputs of update t (1 is the first) at a learning rate that has the
	// group's factor, in the order of the rule's indices (package tensor). Its length is the same
	// for all groups and updates.
	Hyper(lr, weightDecay float64, t int) []float64
}

// Elementwise is an optimizer that updates each element by itself.
type Elementwise interface {
	Optimizer
	// Step updates a slice by its gradients times scalars[ScalarScale], or leaves it as it is
	// where scalars[ScalarApply] is 0. Row i of hyper (F64) is the inputs of group i.
	Step(b tensor.Backend, s Slice, hyper, scalars *tensor.Tensor)
}

// Slot is a tensor of state that an optimizer keeps of each parameter.
type Slot struct {
	// Name is the name in torch's state, for example exp_avg. Checkpoints, plans and records
	// know the slot by it.
	Name  string
	DType tensor.DType
	// Block is the number of the parameter's elements that share one element of the slot: 1, or
	// the length of a block that has one scale.
	Block int
	// MatrixShape is the slot's shape for a matrix of the given shape, where the slot is one of the whole
	// matrix (see Whole); nil for a slot of elements. It is kept by the ranks that compute the
	// matrix.
	MatrixShape func(tensor.Shape) tensor.Shape
}

// Slice is a run of elements of parameters with gradients and state, in order of groups.
type Slice struct {
	P     *tensor.Tensor   // F32 [n]
	State []*tensor.Tensor // in order of Slots, those of elements; n/Block elements each
	G     *tensor.Tensor   // F32 [n]
	Ends  *tensor.Tensor   // I64 [groups]: the element at which each group ends, the last n
}

// elementwise is the part of an optimizer that one rule of the backend does.
func elementwise(b tensor.Backend, rule tensor.UpdateRule, s Slice, hyper, scalars *tensor.Tensor) {
	b.Update(rule, s.P, s.State, s.G, s.Ends, hyper, scalars)
}

// slots are float32 slots with one element per parameter.
func slots(names ...string) []Slot {
	out := make([]Slot, len(names))
	for i, name := range names {
		out[i] = Slot{Name: name, DType: tensor.F32, Block: 1}
	}
	return out
}
