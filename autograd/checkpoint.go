package autograd

import "trireme/tensor"

// CheckpointSequence is a chain of functions under one activation checkpoint, like PyTorch's
// checkpoint_sequential. It saves its inputs, and of its steps only the results that the policy
// names. Backward recomputes all steps.
type CheckpointSequence struct {
	t       *Tape
	ins     []*Var
	steps   []func(*Tape, ...*Var) *Var
	out     *Var // of the last step
	kept    *results
	offload OffloadStack // holds the input; nil for memory
}

// OffloadStack stores inputs of checkpoints until backward, last in, first out.
type OffloadStack interface {
	// Push stores a copy of x.
	Push(x *tensor.Tensor)
	// Top returns the newest tensor. It is valid until Pop.
	Top() *tensor.Tensor
	Pop()
}

// SetOffload stores inputs of checkpoints in s, except those of nested checkpoints, those that are
// recomputed, and those of checkpoints with several inputs.
func (t *Tape) SetOffload(s OffloadStack) { t.offload = s }

// Checkpoint is a CheckpointSequence of one step, f on xs. Without gradients it calls f.
func (t *Tape) Checkpoint(save SavePolicy, f func(*Tape, ...*Var) *Var, xs ...*Var) *Var {
	if !t.grad {
		return f(t, xs...)
	}
	return t.CheckpointSequence(save, xs...).Then(f, xs...)
}

// CheckpointSequence starts a chain on xs. The tape must record.
func (t *Tape) CheckpointSequence(save SavePolicy, xs ...*Var) *CheckpointSequence {
	s := &CheckpointSequence{t: t, ins: xs, kept: &results{policy: save}}
	if t.offload != nil && len(xs) == 1 && xs[0].recompute == nil {
		s.offload = t.offload
		s.offload.Push(t.value(xs[0]))
		return s
	}
	for _, x := range xs {
		x.save()
	}
	return s
}

// Then runs the next step on the last result, or on the inputs of the chain.
func (s *CheckpointSequence) Then(f func(*Tape, ...*Var) *Var, xs ...*Var) *Var {
	if s.out != nil && (len(xs) != 1 || xs[0] != s.out) {
		panic("autograd: a checkpoint step must take the result of the previous step")
	}
	t := s.t
	requiresGrad := true
	y := t.deferred(func() *tensor.Tensor {
		out := s.first(f, xs)
		requiresGrad = out.requiresGrad
		return out.Value
	}, xs...)
	y.requiresGrad = requiresGrad // parameters in f may require gradients
	s.steps, s.out = append(s.steps, f), y
	t.back = append(t.back, func() {
		switch dy := y.grad; {
		case y == s.out:
			y.grad = nil
			s.back(dy)
		case dy != nil:
			panic("autograd: an intermediate result of a checkpoint was read outside")
		}
	})
	return y
}

// first runs a step forward without recording.
func (s *CheckpointSequence) first(f func(*Tape, ...*Var) *Var, xs []*Var) *Var {
	t := s.t
	once := &Tape{b: t.b, dtype: t.dtype, recomputing: t.recomputing, lossGrad: t.lossGrad, lazy: true, kept: s.kept}
	ins := inputs(xs, t.value)
	return once.Scope(func() *Var {
		y := f(once, ins...)
		s.kept.collect(y)
		y.force()
		return y
	})
}

// inputs wraps xs for one run. saved: 1 forbids in-place operations on them.
func inputs(xs []*Var, value func(*Var) *tensor.Tensor) []*Var {
	ins := make([]*Var, len(xs))
	for i, x := range xs {
		ins[i] = &Var{Value: value(x), requiresGrad: x.requiresGrad, saved: 1}
	}
	return ins
}

// value is an input, in memory or offloaded.
func (s *CheckpointSequence) value(x *Var) *tensor.Tensor {
	if s.offload != nil {
		return s.offload.Top()
	}
	return s.t.value(x)
}

// back recomputes the steps and runs their backward from dy; nil is no gradient.
func (s *CheckpointSequence) back(dy *gradient) {
	t := s.t
	if dy != nil {
		rerun := &Tape{b: t.b, dtype: t.dtype, grad: true, recomputing: true, lossGrad: t.lossGrad, lazy: true, kept: s.kept, onRecompute: t.onRecompute}
		ins := inputs(s.ins, s.value)
		barrier := []*tensor.Tensor{dy.t} // a compiler must not merge both runs, nor start this one before dy
		for _, x := range ins {
			barrier = append(barrier, x.Value)
		}
		for _, r := range s.kept.list {
			barrier = append(barrier, r.values...)
		}
		t.b.Barrier(barrier...)
		end := func() {}
		if t.onRecompute != nil {
			end = t.onRecompute()
		}
		z := rerun.Scope(func() *Var {
			xs := ins
			for _, f := range s.steps {
				xs = []*Var{f(rerun, xs...)}
			}
			return xs[0]
		})
		end()
		z.grad = dy
		rerun.close(z)
		for i, x := range s.ins { // accumulate into x's gradient in the order of a pass without checkpoint
			ins[i].grad, x.grad = x.grad, nil
		}
		rerun.Backward()
		if z.grad != nil { // no gradient required inside
			t.release(z.grad)
		}
		for i, x := range s.ins {
			if g := ins[i].grad; x.grad == nil {
				x.grad = g
			} else if g != nil { // x occurs twice
				t.accumulate(x, g)
			}
		}
	}
	s.kept.drop()
	if s.offload != nil {
		s.offload.Pop()
		return
	}
	for _, x := range s.ins {
		t.unsave(x)
	}
}
