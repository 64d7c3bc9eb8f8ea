package nn

import "trireme/autograd"

// Part is a part of a layer to recompute in backward.
type Part uint8

// Attention|MLP recomputes each separately, 0 nothing.
const (
	Layer     Part = 1 << iota // the whole unit
	Attention                  // from the normalized input to the residual sum
	MLP                        // likewise
)

// RecomputePolicy says what to recompute of a layer, and which results to save nevertheless.
type RecomputePolicy struct {
	Part Part
	Save autograd.SavePolicy
}

// Layers are the units that can be recomputed: all but the first, which has no input, and the last,
// whose loss computes gradients in forward.
func Layers(units []*Unit) []*Unit {
	if len(units) < 3 {
		return nil
	}
	return units[1 : len(units)-1]
}

// Recompute sets each layer's policy.
func Recompute(units []*Unit, of func(layer int) RecomputePolicy) {
	for i, u := range Layers(units) {
		u.recompute = of(i)
	}
}

// Part runs f on xs, under a checkpoint if the policy includes p.
func (u *Unit) Part(t *autograd.Tape, p Part, f func(*autograd.Tape, ...*autograd.Var) *autograd.Var, xs ...*autograd.Var) *autograd.Var {
	if u.recompute.Part&p == 0 {
		return t.Part(func() *autograd.Var { return f(t, xs...) })
	}
	return t.Checkpoint(u.recompute.Save, f, xs...)
}

// Segment is consecutive units that are recomputed together (Chen et al. 2016). Only the first
// unit's input is saved. Backward runs all units forward again before it differentiates them.
type Segment struct {
	First, Last *Unit
	// Recomputing reports the second run.
	Recomputing bool

	tape *autograd.Tape // of the current pass
	pass *autograd.CheckpointSequence
	ran  *Unit // last unit in pass
}

// Segments splits a model's layers into n segments of nearly equal length. The last is not
// recomputed, since backward starts with it. With n 0 there are none.
func Segments(units []*Unit, n int) {
	layers := Layers(units)
	for _, u := range layers {
		u.Segment = nil
	}
	n = min(n, len(layers))
	for i := range n - 1 {
		lo, hi := i*len(layers)/n, (i+1)*len(layers)/n
		s := &Segment{First: layers[lo], Last: layers[hi-1]}
		for _, u := range layers[lo:hi] {
			u.Segment = s
		}
	}
}

// run is Unit.Run on a recording tape.
func (s *Segment) run(t *autograd.Tape, u *Unit, x *autograd.Var, f body) *autograd.Var {
	if s.tape != t || u == s.First {
		s.tape, s.pass = t, t.CheckpointSequence(0, x)
	}
	s.ran = u
	y := s.pass.Then(func(t *autograd.Tape, xs ...*autograd.Var) *autograd.Var {
		s.Recomputing = t.Recording()
		return u.run(t, xs[0], f, !s.Recomputing || u != s.ran)
	}, x)
	if u == s.Last {
		s.tape, s.pass = nil, nil
	}
	return y
}
