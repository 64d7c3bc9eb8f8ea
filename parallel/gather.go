package parallel

import (
	"context"
	"slices"

	"trireme/nn"
	"trireme/tensor"
)

// AllGather says when sharded parameters are all-gathered and resharded. It does not change the bits of
// a step. The zero value gathers each unit when it runs.
type AllGather struct {
	// Prefetch is the number of units whose gathers begin before the unit that computes, so that they
	// run meanwhile.
	Prefetch int
	// Keep keeps parameters between forward and backward: all of them, or, where Mesh.Reshard is
	// given, this rank's part of that group's copy, from which they are gathered the second time.
	Keep bool
}

// BeforeForward has u's parameters gathered, and begins the gathers that run ahead of it.
func (e *Engine) BeforeForward(u *nn.Unit, x *tensor.Tensor) { e.before(u, phaseOf(u), x) }

// AfterForward frees the parameters that are not needed soon.
func (e *Engine) AfterForward(u *nn.Unit) { e.reshard(e.step.position) }

// BeforeBackward has u's parameters gathered, and begins the gathers that run ahead of it.
func (e *Engine) BeforeBackward(u *nn.Unit, dy *tensor.Tensor) { e.before(u, backward, dy) }

// AfterBackward frees u's parameters and begins the reduction of its gradients.
func (e *Engine) AfterBackward(u *nn.Unit) {
	e.reshard(e.step.position)
	for _, f := range e.needs[e.index[u]] {
		if f.unit == u && !f.frozen {
			e.reduce(f)
		}
	}
}

// before has the gathers of u, and those that run ahead of it, begin after what it is given.
func (e *Engine) before(u *nn.Unit, p phase, given *tensor.Tensor) {
	s := &e.step
	s.unit = u
	i := e.index[u]
	position := e.schedule.at[p][i]
	if position <= s.position { // another pass
		s.until = position
	}
	s.position, s.until = position, max(s.until, position)
	e.reshard(position - 1) // what was gathered for units that did not run
	for _, f := range e.needs[i] {
		e.gather(f, given)
	}
	e.prefetch(given)
	e.ready(i)
}

// prefetch begins the gathers of the units that run next, but not beyond the end of forward, where
// the unit that runs next is gathered.
func (e *Engine) prefetch(after *tensor.Tensor) {
	s, t := &e.step, &e.schedule
	for next, units := s.position+1, 0; next < len(t.units) && units < e.how.Prefetch && !t.turns(next-1); next++ {
		more := false
		for _, f := range e.needs[t.units[next]] {
			more = more || f.rests() && !slices.Contains(e.needs[t.units[s.position]], f)
			e.gather(f, after)
		}
		if more {
			units++
		}
		s.until = max(s.until, next)
	}
}

// reshard frees the parameters that need not stay gathered after a position.
func (e *Engine) reshard(position int) {
	for _, f := range e.flats {
		if f.gathered() && !e.stays(f, position) {
			e.free(f, position)
		}
	}
}

// stays reports whether f stays gathered after a position: for the next one, because it is
// prefetched, or for backward.
func (e *Engine) stays(f *flat, position int) bool {
	next, ok := e.schedule.next(f, position)
	return ok && (next <= max(e.step.until, position+1) || e.how.Keep && e.mesh.Reshard == nil)
}

// gather begins f's gather, unless it is gathered.
func (e *Engine) gather(f *flat, after *tensor.Tensor) {
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
	// A compiler neither takes a second gather for the first, and keeps that, nor begins it earlier.
	if after == nil {
		e.b.Barrier(part)
	} else {
		e.b.Barrier(part, after)
	}
	if f.kept != nil || f.divided() {
		ops = append(ops, func(ctx context.Context) error { return group.AllGather(ctx, full, part, f.unit.Name) })
	}
	f.gather(full, through, e.issue(ops...))
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
	e.wait(f.under)
	was := f.values
	if part := f.states.arrive(); part != nil {
		part.Release()
	}
	if was == arriving {
		f.bind(f.full)
	}
}

// free frees f's parameters after a position. Mesh.Reshard keeps a copy of what backward needs.
func (e *Engine) free(f *flat, position int) {
	if f.values == arriving { // prefetched for a unit that did not run
		e.arrive(f)
	}
	if _, used := e.schedule.next(f, position); !used {
		f.freeKept()
	} else if e.how.Keep && e.mesh.Reshard != nil && f.kept == nil {
		own := f.full.RankPart("reshard", e.mesh.Reshard.Rank(), e.mesh.Reshard.Size())
		f.kept = e.b.New(tensor.Params, own.DType(), own.Elems())
		e.b.Copy(f.kept, own)
	}
	f.bind(nil)
	f.states.free().Release()
}

// freeAll frees all gathered parameters: a pass is over.
func (e *Engine) freeAll() {
	for _, f := range e.flats {
		if f.gathered() {
			e.free(f, len(e.schedule.units))
		}
		f.freeKept()
	}
	e.step.position, e.step.until = -1, -1
}

// freeKept frees what Mesh.Reshard keeps.
func (f *flat) freeKept() {
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
