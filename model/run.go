package model

import (
	"trireme/autograd"
	"trireme/tensor"
)

// Run runs units [from, to) on x, the output of unit from-1 (nil for from 0), and returns the
// output, nil after the last unit. It takes ownership of x, unless the tape saved it. For backward
// over ranges on different tapes, see autograd.Tape.Input.
func Run(m Model, t *autograd.Tape, x *autograd.Var, b Batch, from, to int, sums *tensor.Tensor) *autograd.Var {
	for i := from; i < to; i++ {
		x = m.Units()[i].Run(t, x, func(t *autograd.Tape, x *autograd.Var) *autograd.Var {
			return m.Forward(t, i, x, b, sums)
		})
	}
	return x
}

// Loss runs all units, in evaluation EvalPasses times, and adds to sums (F64 [Info.SumCount]).
func Loss(m Model, t *autograd.Tape, b Batch, sums *tensor.Tensor) {
	passes := 1
	if !b.Train {
		passes = max(1, m.Info().EvalPasses)
	}
	for b.Pass = range passes {
		t.Scope(func() *autograd.Var { return Run(m, t, nil, b, 0, len(m.Units()), sums) })
	}
}

// RunWithHead runs all units, with f in place of the last unit's forward: for logits instead of
// losses.
func RunWithHead(m Model, t *autograd.Tape, b Batch, f func(t *autograd.Tape, x *autograd.Var)) {
	last := len(m.Units()) - 1
	t.Scope(func() *autograd.Var {
		x := Run(m, t, nil, b, 0, last, nil)
		return m.Units()[last].Run(t, x, func(t *autograd.Tape, x *autograd.Var) *autograd.Var {
			f(t, x)
			return nil
		})
	})
}
