package autograd

import (
	"fmt"

	"trireme/tensor"
)

// Var is a value on a Tape, or a leaf (a parameter) that outlives tapes.
type Var struct {
	// Value is the tensor. A parameter's is set while it is gathered; a value's is nil once
	// it is released.
	Value *tensor.Tensor
	// GradDst, of a leaf that wants a gradient, returns where the gradient is written, and whether
	// something is there already to which it is added.
	GradDst func() (dst *tensor.Tensor, accumulate bool)

	wants  bool                  // a gradient flows through here
	grad   *gradient             // gathers during backward
	saved  int                   // operations that will read Value when they go back
	owned  bool                  // the tape releases Value
	scoped bool                  // the scope in which it was made is still open
	remake func() *tensor.Tensor // makes Value again, where that is cheap
	source *Var                  // that remake reads
	delay  func() *tensor.Tensor // makes Value when it is first read, where it may never be
	kept   *result               // that Value is, where a Checkpoint keeps it
}

// gradient is shared by the inputs of a sum; who holds the only reference may write in place.
type gradient struct {
	t    *tensor.Tensor
	refs int
}

// SetGradDst makes v a leaf that wants a gradient.
func (v *Var) SetGradDst(sink func() (dst *tensor.Tensor, accumulate bool)) {
	v.GradDst, v.wants = sink, sink != nil
}

// Const is a Var for a tensor that the tape neither owns nor differentiates.
func Const(t *tensor.Tensor) *Var { return &Var{Value: t} }

// Tape is one forward pass and the way back. It is used by one goroutine.
type Tape struct {
	b     tensor.Backend
	dtype tensor.DType // of activations
	grad  bool
	begin *tensor.Tensor // F64 [1]: what losses' gradients begin as; nil is 1
	again bool           // runs what ran before: a Segment's second time
	lazy  bool           // products and sums are computed when they are read
	kept  *results       // of the Checkpoint that the tape is a run of; nil for none
	shelf OffloadStack   // nil for memory
	back  []func()
	scope []*Var            // values of the innermost open scope
	fence [1]*tensor.Tensor // what a recomputed value is made of
}

// NewTape begins a pass. With grad false nothing is recorded or kept.
func NewTape(b tensor.Backend, activations tensor.DType, grad bool) *Tape {
	return &Tape{b: b, dtype: activations, grad: grad}
}

// SetLossGrad makes the gradients of losses begin as begin (F64 [1]) where they would as 1, and all
// others that much larger: a loss scale. nil is 1.
func (t *Tape) SetLossGrad(begin *tensor.Tensor) { t.begin = begin }

// scaled makes d, the gradient of a loss that began as 1, begin as the tape's do.
func (t *Tape) scaled(d *tensor.Tensor) {
	if t.begin != nil {
		t.b.ScaleBy(d, d, t.begin)
	}
}

// Backend is where the tape computes.
func (t *Tape) Backend() tensor.Backend { return t.b }

// Recording says whether the tape will go back.
func (t *Tape) Recording() bool { return t.grad }

// OnBackward runs f when Backward reaches this place.
func (t *Tape) OnBackward(f func()) {
	if t.grad {
		t.back = append(t.back, f)
	}
}

// Scope runs f, which makes y from xs, and then releases every value that f made and no
// operation saved, except y, and each of xs that nobody saved: the caller is done with them.
func (t *Tape) Scope(f func() *Var, xs ...*Var) *Var {
	outer := t.scope
	t.scope = nil
	y := f()
	for _, v := range t.scope {
		if v != y {
			t.close(v)
		}
	}
	t.scope = outer
	if y != nil {
		t.scope = append(t.scope, y)
	}
	for _, x := range xs {
		if x != y && x.scoped {
			t.close(x)
		}
	}
	return y
}

// Gradient is what has been gathered of v's gradient so far; nil for nothing.
func (v *Var) Gradient() *tensor.Tensor {
	if v == nil || v.grad == nil {
		return nil
	}
	return v.grad.t
}

// Materialize says that v's value is not to be let go of and made again: what it is made from, a
// parameter, may not be there when it is wanted.
func (v *Var) Materialize() {
	v.remake = nil
	v.force()
}

func (t *Tape) close(v *Var) {
	v.scoped = false
	if v.saved == 0 || v.remake != nil {
		v.drop()
	}
}

// Release lets go of a value that the caller read: the result of a pass without gradients.
func (t *Tape) Release(v *Var) { t.close(v) }

func (v *Var) drop() {
	if v.Value != nil && v.owned {
		v.Value.Release()
		v.Value = nil
	}
}

// newVar is a value that an operation made; its tensor is released by the tape.
func (t *Tape) newVar(value *tensor.Tensor, inputs ...*Var) *Var {
	v := &Var{Value: value}
	t.adopt(v)
	if t.grad || t.lazy {
		for _, x := range inputs {
			v.wants = v.wants || x != nil && x.wants
		}
	}
	return v
}

// adopt puts a value under the care of the open scope.
func (t *Tape) adopt(v *Var) {
	v.owned, v.scoped = true, true
	t.scope = append(t.scope, v)
}

// alloc is a tensor for an activation or its gradient.
func (t *Tape) alloc(shape ...int) *tensor.Tensor {
	return t.b.New(tensor.Activations, t.dtype, shape...)
}

// sums is the type of statistics and logits: F32, or F64 on a tape of F64.
func (t *Tape) sums() tensor.DType {
	if t.dtype == tensor.F64 {
		return tensor.F64
	}
	return tensor.F32
}

// record notes how to go back from y and which values that needs. back is not called when
// no gradient reaches y.
func (t *Tape) record(y *Var, saves []*Var, back func(dy *gradient)) {
	if !t.grad || !y.wants {
		return
	}
	for _, s := range saves {
		s.save()
	}
	t.back = append(t.back, func() {
		dy := y.grad
		y.grad = nil
		if dy != nil {
			back(dy)
		}
		for _, s := range saves {
			t.forget(s)
		}
	})
}

// save keeps v for an operation that will go back.
func (v *Var) save() {
	if v.remake == nil {
		v.force() // what it is made of may be gone when it is read
	}
	v.saved++
}

// forget ends one save of v.
func (t *Tape) forget(v *Var) {
	if v.saved--; v.saved < 0 {
		panic("autograd: a value was forgotten more often than saved")
	}
	if v.saved == 0 && !v.scoped {
		v.drop()
	}
}

// value is v's tensor, made again where it was let go.
func (t *Tape) value(v *Var) *tensor.Tensor {
	v.force()
	if v.Value == nil {
		if v.remake == nil {
			panic("autograd: a value is read that is gone: released, or a parameter that is not gathered")
		}
		if v.source.owned {
			t.fence[0] = t.value(v.source)
			t.b.Barrier(t.fence[:]...)
		}
		v.Value = v.remake()
	}
	return v.Value
}

// give hands gradient g of x over, whoever holds it: the first is kept, further ones are added.
func (t *Tape) give(x *Var, g *gradient) {
	switch {
	case !x.wants:
		t.release(g)
	case x.grad == nil:
		x.grad = g
	default:
		sum := t.own(x.grad)
		t.b.Add(sum.t, sum.t, g.t)
		t.release(g)
		x.grad = sum
	}
}

// own is g with the caller as its only holder: g itself, or a copy.
func (t *Tape) own(g *gradient) *gradient {
	if g.refs == 1 {
		return g
	}
	c := &gradient{t.b.New(tensor.Activations, g.t.DType(), g.t.Shape()...), 1}
	t.b.Copy(c.t, g.t)
	t.release(g)
	return c
}

func (t *Tape) release(g *gradient) {
	if g.refs--; g.refs == 0 {
		g.t.Release()
	}
}

// Backward runs what was recorded in reverse. Roots (losses) have begun their gradients
// themselves. The tape is empty after it.
func (t *Tape) Backward() {
	for i := len(t.back) - 1; i >= 0; i-- {
		t.back[i]()
		t.back[i] = nil
	}
	t.back = t.back[:0]
}

func mustShape(op string, ok bool, ts ...*tensor.Tensor) {
	if !ok {
		panic(fmt.Sprintf("autograd: %s does not take %v", op, ts))
	}
}
