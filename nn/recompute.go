package nn

import "trireme/autograd"

// Part is what of a layer is computed again on the way back instead of being kept.
type Part uint8

// The parts; Attention|MLP is each by itself, 0 nothing.
const (
	Layer     Part = 1 << iota // all of the unit: its input is kept
	Attention                  // from the normalised input to what is added to the residual
	MLP                        // the same of the other half
)

// RecomputePolicy says what of a layer is computed again, and what of that is kept all the same.
type RecomputePolicy struct {
	Part Part
	Save autograd.SavePolicy
}

// Layers are the units of a model that can be computed twice: all but the first, which has no
// input, and the last, whose loss takes its gradient on the way forward.
func Layers(units []*Unit) []*Unit {
	if len(units) < 3 {
		return nil
	}
	return units[1 : len(units)-1]
}

// Recompute sets what each of a model's layers computes again.
func Recompute(units []*Unit, of func(layer int) RecomputePolicy) {
	for i, u := range Layers(units) {
		u.again = of(i)
	}
}

// Part computes f on xs as a part of the unit.
func (u *Unit) Part(t *autograd.Tape, p Part, f func(*autograd.Tape, ...*autograd.Var) *autograd.Var, xs ...*autograd.Var) *autograd.Var {
	if u.again.Part&p == 0 {
		return f(t, xs...)
	}
	return t.Checkpoint(u.again.Save, f, xs...)
}

// Segment is units that follow one another and are computed again as one (Chen et al. 2016): of
// all that they compute the first one's input is kept. On the way back they run forward for the
// second time, one after the other, and then go back.
type Segment struct {
	First, Last *Unit
	// Recomputing says that the units run for the second time.
	Recomputing bool

	tape *autograd.Tape // of the pass under way
	pass *autograd.CheckpointSequence
	ran  *Unit // the last one in it
}

// Segments divides a model's layers into n segments of nearly the same length, and 0 into none.
// The last is no Segment: the way back begins with it, so that it would be computed twice in a
// row.
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

// run is Unit.Run, on a tape that records.
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
