package nn

import (
	"trireme/autograd"
	"trireme/tensor"
)

// Unit is a part of a model whose parameters are gathered together, just before it computes,
// and let go of together: a decoder layer, an embedding, the head. Units run in the order in
// which the model lists them.
type Unit struct {
	Name   string
	Params []*Param
	// Shared are parameters of other units that this one reads too (tied weights). Their
	// owner runs earlier in the forward pass.
	Shared []*Param
	// Observer is told before and after the unit runs; nil for nobody.
	Observer Observer
	// Segment is what the unit is computed again with; nil for none.
	Segment *Segment

	again RecomputePolicy
}

// Observer is how the division of a model among ranks meets its computation. A unit of a Segment
// runs forward twice before it goes back: Segment.Again tells the second time. x is what a unit is
// about to read, and dy the gradient that it is given; nil where there is none, or not yet.
type Observer interface {
	BeforeForward(u *Unit, x *tensor.Tensor)
	AfterForward(*Unit)
	BeforeBackward(u *Unit, dy *tensor.Tensor)
	AfterBackward(*Unit)
}

// body is what a unit computes.
type body = func(*autograd.Tape, *autograd.Var) *autograd.Var

// Run computes f on x as this unit. The caller is done with x, unless an operation saved it. The
// first unit of a model is given nil for x, the last gives nil: neither is computed twice.
func (u *Unit) Run(t *autograd.Tape, x *autograd.Var, f func(*autograd.Tape, *autograd.Var) *autograd.Var) *autograd.Var {
	if u.Segment != nil && t.Recording() {
		return t.Scope(func() *autograd.Var { return u.Segment.run(t, u, x, f) }, x)
	}
	if u.Segment != nil {
		u.Segment.Recomputing = false
	}
	return u.run(t, x, f, true)
}

// run is Run outside of segments; read says that somebody reads the result.
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

// keep sees to it that a unit's result is there when its parameters are gone.
func keep(y *autograd.Var) *autograd.Var {
	if y != nil {
		y.Materialize()
	}
	return y
}
