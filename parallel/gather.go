package parallel

import (
	"context"
	"slices"

	"trireme/nn"
	"trireme/tensor"
)

// Gather steers what is gathered when, where parameters are divided. The bits of a step are the
// same whatever it says. Its zero value gathers what runs, when it runs.
type Gather struct {
	// Ahead is the number of units whose gathers begin before the unit that computes, so that they
	// run meanwhile.
	Ahead int
	// Keep keeps what has run forward for the backward pass: all of it, or, where Mesh.Reshard is
	// given, the part that a rank holds of that group's copy, from which it is gathered again.
	Keep bool
}

// BeforeForward has u's parameters gathered, and begins the gathers that run ahead of it.
func (e *Engine) BeforeForward(u *nn.Unit) { e.before(u, way(u)) }

// AfterForward lets go of what is not needed again soon.
func (e *Engine) AfterForward(u *nn.Unit) { e.letGo(e.step.turn) }

// BeforeBackward has u's parameters gathered again, and begins the gathers that run ahead of it.
func (e *Engine) BeforeBackward(u *nn.Unit) { e.before(u, back) }

// AfterBackward lets go of u's parameters and begins the reduction of its gradients.
func (e *Engine) AfterBackward(u *nn.Unit) {
	e.letGo(e.step.turn)
	for _, f := range e.needs[e.index[u]] {
		if f.unit == u && !f.frozen {
			e.reduce(f)
		}
	}
}

func (e *Engine) before(u *nn.Unit, p phase) {
	s := &e.step
	s.unit = u
	i := e.index[u]
	turn := e.trace.turns[p][i]
	if turn <= s.turn { // another pass
		s.until = turn
	}
	s.turn, s.until = turn, max(s.until, turn)
	e.letGo(turn - 1) // what was gathered for units that did not run
	for _, f := range e.needs[i] {
		e.gather(f)
	}
	e.ahead()
	e.ready(i)
}

// ahead begins the gathers of the units that run next, but not beyond the turn from forward to
// back, where what runs next is there.
func (e *Engine) ahead() {
	s, t := &e.step, &e.trace
	for next, units := s.turn+1, 0; next < len(t.units) && units < e.how.Ahead && !t.meets(next-1); next++ {
		more := false
		for _, f := range e.needs[t.units[next]] {
			more = more || f.rests() && !slices.Contains(e.needs[t.units[s.turn]], f)
			e.gather(f)
		}
		if more {
			units++
		}
		s.until = max(s.until, next)
	}
}

// letGo lets go of what turn had no need to leave behind.
func (e *Engine) letGo(turn int) {
	for _, f := range e.flats {
		if f.gathered() && !e.wanted(f, turn) {
			e.release(f, turn)
		}
	}
}

// wanted says whether f stays gathered after turn: for the next one, as one that is gathered
// ahead, or as one that is used again before long.
func (e *Engine) wanted(f *flat, turn int) bool {
	next, ok := e.trace.next(f, turn)
	switch {
	case !ok:
		return false
	case next <= max(e.step.until, turn+1):
		return true
	}
	return e.how.Keep && e.mesh.Reshard == nil && e.step.training
}

// gather begins f's gather, unless it is gathered.
func (e *Engine) gather(f *flat) {
	if f.values != resting {
		return
	}
	full := e.b.New(tensor.Gathered, f.param.DType(), f.padded)
	group, part := e.mesh.Group(Shard), f.param
	var through *tensor.Tensor
	var ops []op
	switch {
	case f.kept != nil:
		group, part = e.mesh.Reshard, f.kept
	case isFar(f.param):
		if part = full; f.divided() {
			through = e.b.New(tensor.Params, f.param.DType(), f.layout.param.n())
			part = through
		}
		ops = append(ops, e.fetch(f, part))
	}
	e.b.Barrier(part) // so that a second gather is not the first one, kept
	if f.kept != nil || f.divided() {
		ops = append(ops, func(ctx context.Context) error { return group.AllGather(ctx, full, part, f.unit.Name) })
	}
	f.come(full, through, e.issue(ops...))
}

// ready waits for the parameters of unit i.
func (e *Engine) ready(i int) {
	for _, f := range e.needs[i] {
		if f.values != ready {
			e.arrive(f)
		}
	}
}

// arrive waits for parameters that are on their way.
func (e *Engine) arrive(f *flat) {
	e.wait(f.comes)
	was := f.values
	if part := f.states.arrive(); part != nil {
		part.Release()
	}
	if was == arriving {
		f.bind(f.full)
	}
}

// release lets go of f after turn. Of what is needed on the way back Mesh.Reshard keeps a copy.
func (e *Engine) release(f *flat, turn int) {
	if f.values == arriving { // gathered ahead of a unit that did not run
		e.arrive(f)
	}
	if _, used := e.trace.next(f, turn); !used {
		f.drop()
	} else if e.how.Keep && e.mesh.Reshard != nil && e.step.training && f.kept == nil {
		own := f.full.Own("reshard", e.mesh.Reshard.Rank(), e.mesh.Reshard.Size())
		f.kept = e.b.New(tensor.Params, own.DType(), own.Elems())
		e.b.Copy(f.kept, own)
	}
	f.bind(nil)
	f.leave().Release()
}

// forget lets go of everything: a pass is over.
func (e *Engine) forget() {
	for _, f := range e.flats {
		if f.gathered() {
			e.release(f, len(e.trace.units))
		}
		f.drop()
	}
	e.step.turn, e.step.until = -1, -1
}

// drop lets go of what Mesh.Reshard keeps.
func (f *flat) drop() {
	if f.kept != nil {
		f.kept.Release()
		f.kept = nil
	}
}

// divided says whether the parameters at rest are a part of the flat.
func (f *flat) divided() bool { return f.layout.param.n() < f.padded }

// rests says whether the parameters are gathered when they are needed and freed afterwards.
func (f *flat) rests() bool { return f.divided() || isFar(f.param) }

// gathered says whether a flat that rests is whole here now, or arriving.
func (f *flat) gathered() bool { return f.rests() && f.values != resting }
