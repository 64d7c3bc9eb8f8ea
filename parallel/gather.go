package parallel

import (
	"slices"

	"trireme/flight"
	"trireme/nn"
	"trireme/tensor"
	"trireme/trace"
)

// AllGather says when sharded parameters are all-gathered and resharded. It does not change the bits of
// a step. The zero value gathers each unit when it runs.
type AllGather struct {
	// Prefetch is the number of units that are all-gathered ahead of the unit that computes.
	Prefetch int
	// Keep keeps parameters from forward to backward: unsharded, or, if the mesh has a Reshard group,
	// as this rank's shard of that group's copy, which backward all-gathers within the group.
	Keep bool
}

// BeforeForward waits for u's parameters and starts the all-gathers of the next units.
func (e *Engine) BeforeForward(u *nn.Unit, x *tensor.Tensor) { e.before(u, phaseOf(u), x) }

// AfterForward reshards parameters that are not needed soon.
func (e *Engine) AfterForward(u *nn.Unit) {
	e.reshard(e.step.position)
	e.endUnit()
}

// BeforeBackward waits for u's parameters and starts the all-gathers of the next units.
func (e *Engine) BeforeBackward(u *nn.Unit, dy *tensor.Tensor) { e.before(u, backward, dy) }

// AfterBackward reshards u's parameters and starts the reduction of its gradients.
func (e *Engine) AfterBackward(u *nn.Unit) {
	e.reshard(e.step.position)
	for _, f := range e.needs[e.index[u]] {
		if f.unit == u && !f.frozen {
			e.reduce(f)
		}
	}
	e.endUnit()
}

// beginUnit starts the span of a unit that is about to run. On a backend that compiles, the unit is only recorded.
func (e *Engine) beginUnit(u *nn.Unit, p phase) {
	if !e.static {
		e.step.span = e.trace.Begin(trace.Span{Kind: spanKinds[p], Unit: u.Name})
	}
}

// endUnit ends the span of the unit that runs.
func (e *Engine) endUnit() {
	if !e.static {
		e.trace.End(e.step.span)
	}
}

// before starts the all-gathers of u and of the next units, after its input (or gradient) given is
// computed, and waits for u's.
func (e *Engine) before(u *nn.Unit, p phase, given *tensor.Tensor) {
	s := &e.step
	s.unit = u
	e.beginUnit(u, p)
	if p == backward {
		e.recorder.Unit(flight.Backward, u.Name)
	} else {
		e.recorder.Unit(flight.Forward, u.Name)
	}
	i := e.index[u]
	position := e.schedule.at[p][i]
	if position <= s.position { // a new pass
		s.until = position
	}
	s.position, s.until = position, max(s.until, position)
	e.reshard(position - 1) // prefetched for units that did not run
	for _, f := range e.needs[i] {
		e.gather(f, given)
	}
	e.prefetch(given)
	e.ready(i)
}

// prefetch starts the all-gathers of the next units. It stops between forward and backward,
// where the next unit is the current one.
func (e *Engine) prefetch(after *tensor.Tensor) {
	s, t := &e.step, &e.schedule
	for next, units := s.position+1, 0; next < len(t.units) && units < e.allGather.Prefetch && !t.backwardAfter(next-1); next++ {
		more := false
		for _, f := range e.needs[t.units[next]] {
			if f.casts() {
				continue
			}
			more = more || f.reshards() && !slices.Contains(e.needs[t.units[s.position]], f)
			e.gather(f, after)
		}
		if more {
			units++
		}
		s.until = max(s.until, next)
	}
}

// reshard frees the unsharded parameters that are not needed soon after a position.
func (e *Engine) reshard(position int) {
	for _, f := range e.flats {
		if f.gathered() && !e.staysGathered(f, position) && !e.keepsCast(f) {
			e.free(f, position)
		}
	}
}

// staysGathered reports whether f stays unsharded after a position: for the next position, as
// prefetched, or for backward.
func (e *Engine) staysGathered(f *flat, position int) bool {
	next, ok := e.schedule.next(f, position)
	return ok && (next <= max(e.step.until, position+1) || e.allGather.Keep && e.mesh.Reshard == nil || f.casts())
}

// keepsCast reports whether f's compute parameters are kept for the next micro-batch, or, after an evaluation
// pass, for the next pass.
func (e *Engine) keepsCast(f *flat) bool {
	return f.casts() && (!e.step.training || e.step.micro+1 < e.step.accumulation)
}

// gather starts f's all-gather, unless it is unsharded.
func (e *Engine) gather(f *flat, after *tensor.Tensor) {
	if f.values != sharded {
		return
	}
	if f.casts() {
		f.hold(e.b.New(tensor.Params, e.precision.Param, f.padded))
		f.bind(f.full)
		e.b.Copy(f.full, f.master)
		return
	}
	full := e.b.New(tensor.Gathered, f.param.DType(), f.padded)
	group, part := e.mesh.Group(Shard), f.param
	var through *tensor.Tensor
	var ops []op
	switch {
	case f.secondary != nil:
		group, part = e.mesh.Reshard, f.secondary
	case isOffloaded(f.param):
		if part = full; f.isSharded() {
			through = e.b.New(tensor.Params, f.param.DType(), f.layout.param.len())
			part = through
		}
		ops = append(ops, e.fetch(f, part))
	}
	// The barrier keeps a compiler from merging this all-gather with an earlier one or moving it up.
	if after == nil {
		e.b.Barrier(part)
	} else {
		e.b.Barrier(part, after)
	}
	if f.secondary != nil || f.isSharded() {
		ops = append(ops, allGather(group, full, part, f.unit.Name))
	}
	f.gather(full, through, e.issue(ops...))
}

func (e *Engine) ready(i int) {
	for _, f := range e.needs[i] {
		if f.values != ready {
			e.arrive(f)
		}
	}
}

func (e *Engine) arrive(f *flat) {
	e.wait(f.under)
	was := f.values
	if part := f.states.setReady(); part != nil {
		part.Release()
	}
	if was == gathering {
		f.bind(f.full)
	}
}

// free frees f's unsharded parameters after a position. If backward needs them, the Mesh.Reshard group
// keeps a sharded copy.
func (e *Engine) free(f *flat, position int) {
	if f.values == gathering { // prefetched for a unit that did not run
		e.arrive(f)
	}
	if _, used := e.schedule.next(f, position); !used {
		f.freeSecondary()
	} else if e.allGather.Keep && e.mesh.Reshard != nil && f.secondary == nil {
		own := f.full.RankPart("reshard", e.mesh.Reshard.Rank(), e.mesh.Reshard.Size())
		f.secondary = e.b.New(tensor.Params, own.DType(), own.Elems())
		e.b.Copy(f.secondary, own)
	}
	f.bind(nil)
	f.states.free().Release()
}

func (e *Engine) freeAll() {
	for _, f := range e.flats {
		if f.gathered() && !e.keepsCast(f) {
			e.free(f, len(e.schedule.units))
		}
		f.freeSecondary()
	}
	e.step.position, e.step.until = -1, -1
}

func (f *flat) freeSecondary() {
	if f.secondary != nil {
		f.secondary.Release()
		f.secondary = nil
	}
}

// isSharded reports whether this rank keeps only its shard of the parameters.
func (f *flat) isSharded() bool { return f.layout.param.len() < f.padded }

// casts reports whether the compute parameters exist from forward to backward only, cast from the master.
func (f *flat) casts() bool { return f.param == nil }

// reshards reports whether the parameters are unsharded for each use and freed afterwards.
func (f *flat) reshards() bool { return f.casts() || f.isSharded() || isOffloaded(f.param) }

// gathered reports whether a flat that reshards is unsharded, or being gathered.
func (f *flat) gathered() bool { return f.reshards() && f.values != sharded }
