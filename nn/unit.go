package nn

import (
	"trireme/autograd"
	"trireme/tensor"
)

// Unit is a part of a model whose parameters are all-gathered before it runs and resharded
// afterwards: a decoder layer, an embedding, the head. Units run in the order of the model's list.
type Unit struct {
	Name   string
	Params []*Param
	// Shared are parameters of earlier units that this one uses too (tied weights).
	Shared []*Param
	// Observer is notified before and after the unit runs; nil for none.
	Observer Observer
	// Segment recomputes the unit; nil for none.
	Segment *Segment

	recompute RecomputePolicy
}

// Observer connects a model to package parallel. A unit of a Segment runs forward twice;
// Segment.Recomputing marks the second run. x is the unit's input and dy its incoming gradient, nil
// if there is none yet.
type Observer interface {
	BeforeForward(u *Unit, x *tensor.Tensor)
	AfterForward(*Unit)
	BeforeBackward(u *Unit, dy *tensor.Tensor)
	AfterBackward(*Unit)
}

// body is a unit's function.
type body = func(*autograd.Tape, *autograd.Var) *autograd.Var

// Run runs f on x as this unit. The caller must not use x afterwards. x is nil for a model's first
// unit, the result nil for its last; neither is recomputed.
func (u *Unit) Run(t *autograd.Tape, x *autograd.Var, f func(*autograd.Tape, *autograd.Var) *autograd.Var) *autograd.Var {
	if u.Segment != nil && t.Recording() {
		return t.Scope(func() *autograd.Var { return u.Segment.run(t, u, x, f) }, x)
	}
	if u.Segment != nil {
		u.Segment.Recomputing = false
	}
	return u.run(t, x, f, true)
}

// run is Run without segments. read is false if nothing reads the result.
func (u *Unit) run(t *autograd.Tape, x *autograd.Var, f body, read bool) (y *autograd.Var) {
	if o := u.Observer; o != nil {
		var in *tensor.Tensor
		if x != nil {
			in = x.Value
		}
		o.BeforeForward(u, in)
		t.OnBackward(func() { o.AfterBackward(u) })
		defer func() {
			o.AfterForward(u)
			t.OnBackward(func() { o.BeforeBackward(u, y.Gradient()) })
		}()
	}
	if x == nil {
		return t.Scope(func() *autograd.Var { return keep(f(t, nil)) })
	}
	return t.Scope(func() *autograd.Var {
		y := u.Part(t, Layer, func(t *autograd.Tape, xs ...*autograd.Var) *autograd.Var { return f(t, xs[0]) }, x)
		if !read {
			return y
		}
		return keep(y)
	}, x)
}

// keep computes the result before the unit's parameters are resharded.
func keep(y *autograd.Var) *autograd.Var {
	if y != nil {
		y.Materialize()
	}
	return y
}
