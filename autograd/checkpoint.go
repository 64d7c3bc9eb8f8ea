package autograd

import "trireme/tensor"

// CheckpointSequence is a part of a pass of which its inputs are kept and, of what it computes, nothing
// but what keep names: on the way back it is computed again, as one. It is made of steps, each of
// what the one before made.
type CheckpointSequence struct {
	t     *Tape
	ins   []*Var
	steps []func(*Tape, ...*Var) *Var
	out   *Var // of the last step
	kept  *results
	shelf OffloadStack // where its input is; nil for memory
}

// OffloadStack keeps inputs of segments elsewhere while nobody reads them: the last that was put away
// is taken first.
type OffloadStack interface {
	// Push puts a copy of x away.
	Push(x *tensor.Tensor)
	// Top is what was put away last, until Pop forgets it.
	Top() *tensor.Tensor
	Pop()
}

// SetOffload puts inputs of segments on s. Those of segments that run within another stay in memory,
// and so do those that are made again.
func (t *Tape) SetOffload(s OffloadStack) { t.shelf = s }

// Checkpoint is a Segment of one step, f on xs. Without a way back it is f.
func (t *Tape) Checkpoint(keep SavePolicy, f func(*Tape, ...*Var) *Var, xs ...*Var) *Var {
	if !t.grad {
		return f(t, xs...)
	}
	return t.CheckpointSequence(keep, xs...).Then(f, xs...)
}

// CheckpointSequence begins one that reads xs, on a tape that records.
func (t *Tape) CheckpointSequence(keep SavePolicy, xs ...*Var) *CheckpointSequence {
	s := &CheckpointSequence{t: t, ins: xs, kept: &results{what: keep}}
	if t.shelf != nil && len(xs) == 1 && xs[0].remake == nil {
		s.shelf = t.shelf
		s.shelf.Push(t.value(xs[0]))
		return s
	}
	for _, x := range xs {
		x.save()
	}
	return s
}

// Then runs the next step, f, on what the last one made, or, the first, on the segment's inputs.
func (s *CheckpointSequence) Then(f func(*Tape, ...*Var) *Var, xs ...*Var) *Var {
	if s.out != nil && (len(xs) != 1 || xs[0] != s.out) {
		panic("autograd: a step of a segment does not follow the one before")
	}
	t := s.t
	wants := true
	y := t.delayed(func() *tensor.Tensor {
		out := s.first(f, xs)
		wants = out.wants
		return out.Value
	}, xs...)
	y.wants = wants // parameters inside f want gradients even where xs do not
	s.steps, s.out = append(s.steps, f), y
	t.back = append(t.back, func() {
		switch dy := y.grad; {
		case y == s.out:
			y.grad = nil
			s.back(dy)
		case dy != nil:
			panic("autograd: what a step of a segment made was read outside of it")
		}
	})
	return y
}

// first runs a step for its result alone.
func (s *CheckpointSequence) first(f func(*Tape, ...*Var) *Var, xs []*Var) *Var {
	t := s.t
	once := &Tape{b: t.b, dtype: t.dtype, again: t.again, begin: t.begin, lazy: true, kept: s.kept}
	ins := inputs(xs, t.value)
	return once.Scope(func() *Var {
		y := f(once, ins...)
		s.kept.settle(y)
		y.force()
		return y
	})
}

// inputs are xs as a run reads them: they are read again, so that nothing may be done to them in
// place.
func inputs(xs []*Var, value func(*Var) *tensor.Tensor) []*Var {
	ins := make([]*Var, len(xs))
	for i, x := range xs {
		ins[i] = &Var{Value: value(x), wants: x.wants, saved: 1}
	}
	return ins
}

// value is an input, wherever it is.
func (s *CheckpointSequence) value(x *Var) *tensor.Tensor {
	if s.shelf != nil {
		return s.shelf.Top()
	}
	return s.t.value(x)
}

// back runs the steps again, from whose result the gradient dy goes back; nil is none.
func (s *CheckpointSequence) back(dy *gradient) {
	t := s.t
	if dy != nil {
		again := &Tape{b: t.b, dtype: t.dtype, grad: true, again: true, begin: t.begin, lazy: true, kept: s.kept}
		ins := inputs(s.ins, s.value)
		fence := []*tensor.Tensor{dy.t} // the second run is another one, and comes after dy
		for _, x := range ins {
			fence = append(fence, x.Value)
		}
		for _, r := range s.kept.list {
			fence = append(fence, r.values...)
		}
		t.b.Barrier(fence...)
		z := again.Scope(func() *Var {
			xs := ins
			for _, f := range s.steps {
				xs = []*Var{f(again, xs...)}
			}
			return xs[0]
		})
		z.grad = dy
		again.close(z)
		for i, x := range s.ins { // what has gathered is added to, in the order without a segment
			ins[i].grad, x.grad = x.grad, nil
		}
		again.Backward()
		if z.grad != nil { // nothing in there wants it
			t.release(z.grad)
		}
		for i, x := range s.ins {
			if g := ins[i].grad; x.grad == nil {
				x.grad = g
			} else if g != nil { // x is there twice
				t.give(x, g)
			}
		}
	}
	s.kept.drop()
	if s.shelf != nil {
		s.shelf.Pop()
		return
	}
	for _, x := range s.ins {
		t.forget(x)
	}
}
