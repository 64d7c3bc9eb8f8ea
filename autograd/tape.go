package autograd

import (
	"fmt"
	"slices"

	"trireme/tensor"
)

// Var is a value on a Tape, or a leaf (a parameter) that outlives tapes.
type Var struct {
	// Value is a parameter's tensor while it is all-gathered, or a value's until it is freed.
	Value *tensor.Tensor
	// Scales are those of a leaf whose Value has 8-bit weights (tensor.Quantized). Such a leaf has no gradient, and
	// only Linear, Embedding and Project take it.
	Scales *tensor.Tensor
	// GradDst returns a leaf's gradient destination, and whether to add to it.
	GradDst func() (dst *tensor.Tensor, accumulate bool)

	requiresGrad bool
	grad         *gradient             // accumulated in backward
	saved        int                   // operations that read Value in backward
	owned        bool                  // the tape frees Value
	scoped       bool                  // its scope is open
	recompute    func() *tensor.Tensor // recomputes Value, cheaply
	source       *Var                  // input of recompute
	deferred     func() *tensor.Tensor // computes Value on first read
	kept         *result               // saved result of a checkpoint
}

// gradient is shared by inputs of a sum. The holder of the only reference may write in place.
type gradient struct {
	t    *tensor.Tensor
	refs int
}

// SetGradDst makes v a leaf that requires a gradient.
func (v *Var) SetGradDst(dst func() (dst *tensor.Tensor, accumulate bool)) {
	v.GradDst, v.requiresGrad = dst, dst != nil
}

// Const is a Var that the tape neither owns nor differentiates.
func Const(t *tensor.Tensor) *Var { return &Var{Value: t} }

// Tape is one forward pass and its backward. It is not safe for concurrent use.
type Tape struct {
	b           tensor.Backend
	dtype       tensor.DType // of activations
	grad        bool
	lossGrad    *tensor.Tensor // F64 [1]; nil is 1
	recomputing bool           // second run of a checkpoint
	highest     bool           // multiply float32 as float32
	lazy        bool           // defer products and sums until read
	kept        *results       // of the checkpoint that this tape runs; nil for none
	offload     OffloadStack   // nil for memory
	onRecompute func() func()  // nil for none
	back        []func()
	scope       []*Var            // values of the innermost scope
	barrier     [1]*tensor.Tensor // source of a recomputed value
}

// NewTape starts a pass. Without grad nothing is recorded or saved.
func NewTape(b tensor.Backend, activations tensor.DType, grad bool) *Tape {
	return &Tape{b: b, dtype: activations, grad: grad}
}

// Highest makes Linear and LinearT multiply float32 as float32 on every backend (tensor.MatMulOp), for a pass of one
// row: to split a weight into parts takes longer than to read it.
func (t *Tape) Highest() { t.highest = true }

// SetLossGrad sets the gradient of losses (F64 [1]; nil is 1), such as a loss scale. All gradients
// scale with it.
func (t *Tape) SetLossGrad(lossGrad *tensor.Tensor) { t.lossGrad = lossGrad }

// OnRecompute calls f before the second run of each checkpoint, and the function that it returns afterwards.
func (t *Tape) OnRecompute(f func() (end func())) { t.onRecompute = f }

// scaleLoss multiplies d, the gradient of a loss, by the tape's loss gradient.
func (t *Tape) scaleLoss(d *tensor.Tensor) {
	if t.lossGrad != nil {
		t.b.ScaleBy(d, d, t.lossGrad)
	}
}

// Backend is the tape's backend.
func (t *Tape) Backend() tensor.Backend { return t.b }

// Recording reports whether the tape records for Backward.
func (t *Tape) Recording() bool { return t.grad }

// OnBackward calls f when Backward reaches this point of the pass.
func (t *Tape) OnBackward(f func()) {
	if t.grad {
		t.back = append(t.back, f)
	}
}

// Scope runs f, which computes y from xs. It then frees all values of f except y and those saved
// for backward, and each of xs that is not saved: the caller is done with them.
func (t *Tape) Scope(f func() *Var, xs ...*Var) *Var {
	y, others := t.nest(f)
	for _, v := range others {
		t.close(v)
	}
	for _, x := range xs {
		if x != y && x.scoped {
			t.close(x)
		}
	}
	return y
}

// Part is Scope for a part of the open scope. The values that a deferred result will be computed from are freed with
// the open scope instead.
func (t *Tape) Part(f func() *Var) *Var {
	y, others := t.nest(f)
	if y != nil && y.deferred != nil {
		t.scope = append(t.scope, others...)
		return y
	}
	for _, v := range others {
		t.close(v)
	}
	return y
}

// nest runs f, adds its result to the open scope, and returns the other values of f.
func (t *Tape) nest(f func() *Var) (y *Var, others []*Var) {
	outer := t.scope
	t.scope = nil
	y = f()
	others = slices.DeleteFunc(t.scope, func(v *Var) bool { return v == y })
	if t.scope = outer; y != nil {
		t.scope = append(t.scope, y)
	}
	return y, others
}

// Gradient is v's gradient accumulated so far; nil for none.
func (v *Var) Gradient() *tensor.Tensor {
	if v == nil || v.grad == nil {
		return nil
	}
	return v.grad.t
}

// Materialize computes v's value and keeps it. The parameters that recomputation reads may be
// resharded later.
func (v *Var) Materialize() {
	v.recompute = nil
	v.force()
}

func (t *Tape) close(v *Var) {
	v.scoped = false
	if v.saved == 0 || v.recompute != nil {
		v.drop()
	}
}

// Release frees a value after the caller has read it, in a pass without gradients.
func (t *Tape) Release(v *Var) { t.close(v) }

func (v *Var) drop() {
	if v.Value != nil && v.owned {
		v.Value.Release()
		v.Value = nil
	}
}

// newVar is the result of an operation, owned by the tape.
func (t *Tape) newVar(value *tensor.Tensor, inputs ...*Var) *Var {
	v := &Var{Value: value}
	t.adopt(v)
	if t.grad || t.lazy {
		for _, x := range inputs {
			v.requiresGrad = v.requiresGrad || x != nil && x.requiresGrad
		}
	}
	return v
}

// adopt adds a value to the open scope.
func (t *Tape) adopt(v *Var) {
	v.owned, v.scoped = true, true
	t.scope = append(t.scope, v)
}

// alloc allocates an activation or its gradient.
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

// record appends the backward of y and saves its operands. back is skipped if no gradient reaches
// y.
func (t *Tape) record(y *Var, saves []*Var, back func(dy *gradient)) {
	if !t.grad || !y.requiresGrad {
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
			t.unsave(s)
		}
	})
}

// save keeps v until the backward of an operation.
func (v *Var) save() {
	if v.recompute == nil {
		v.force() // its inputs may be freed before it is read
	}
	v.saved++
}

// unsave drops one reference to v.
func (t *Tape) unsave(v *Var) {
	if v.saved--; v.saved < 0 {
		panic("autograd: a value was unsaved more often than saved")
	}
	if v.saved == 0 && !v.scoped {
		v.drop()
	}
}

// lastRead frees v, which an operation saved, before the end of its backward, if no other operation saved it.
func (v *Var) lastRead() {
	if v.saved == 1 && !v.scoped {
		v.drop()
	}
}

// value is v's tensor, recomputed if it was freed.
func (t *Tape) value(v *Var) *tensor.Tensor {
	v.force()
	if v.Value == nil {
		if v.recompute == nil {
			panic("autograd: read of a freed value, or of a parameter that is not all-gathered")
		}
		if v.source.owned {
			t.barrier[0] = t.value(v.source)
			t.b.Barrier(t.barrier[:]...)
		}
		v.Value = v.recompute()
	}
	return v.Value
}

// accumulate adds g to x's gradient and takes over g.
func (t *Tape) accumulate(x *Var, g *gradient) {
	switch {
	case !x.requiresGrad:
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

// own returns g if it has one reference, else a copy.
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

// Backward runs the recorded operations in reverse and empties the tape. Losses have set their
// gradients.
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
