package parallel

import (
	"context"

	"trireme/nn"
	"trireme/tensor"
)

// Gather steers what is gathered when, where parameters are divided. The bits of a step are the
// same whatever it says. Its zero value gathers what runs, when it runs.
type Gather struct {
	// Ahead is how far gathers run ahead of the unit that computes: until they have so many
	// elements. 1 is one unit; 0 none.
	Ahead int
	// Forward and Backward say when gathers that run ahead are begun.
	Forward, Backward Prefetch
	// Live bounds what is gathered at one time to so many elements, but for the units that
	// compute: nothing is gathered ahead or kept beyond it. 0 is no bound.
	Live int
	// Reuse keeps what is read again within so many elements of other units.
	Reuse int
	// Keep keeps what has run forward for the way back: all of it, or, where Groups.Reshard is
	// given, the part that a rank holds of that group's copy, from which it is gathered again.
	Keep bool
}

// Prefetch is when gathers that run ahead of a unit are begun.
type Prefetch uint8

// The moments.
const (
	Never  Prefetch = iota
	Before          // before the unit computes, so that they run meanwhile
	After           // after it, when it is let go of: they run while its gradients are reduced
)

// BeforeForward has u's parameters gathered, and begins the gathers that run ahead of it.
func (e *Engine) BeforeForward(u *nn.Unit) { e.before(u, way(u)) }

// AfterForward lets go of what is not needed again soon.
func (e *Engine) AfterForward(u *nn.Unit) {
	e.letGo(e.step.turn)
	e.ahead(After)
}

// BeforeBackward has u's parameters gathered again, and begins the gathers that run ahead of it.
func (e *Engine) BeforeBackward(u *nn.Unit) { e.before(u, back) }

// AfterBackward lets go of u's parameters and begins the reduction of its gradients.
func (e *Engine) AfterBackward(u *nn.Unit) {
	e.letGo(e.step.turn)
	e.ahead(After)
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
	e.makeRoom(i)
	for _, f := range e.needs[i] {
		e.gather(f)
	}
	e.ahead(Before)
	e.ready(i)
}

// ahead begins the gathers of the units that run next, if this is the moment: as far as Gather
// says, and not beyond the turn from forward to back, where what runs next is there.
func (e *Engine) ahead(now Prefetch) {
	s, t := &e.step, &e.trace
	when := e.how.Forward
	if s.turn >= t.forward {
		when = e.how.Backward
	}
	if when != now {
		return
	}
	s.mark++
	for _, f := range e.needs[t.units[s.turn]] {
		f.mark = s.mark
	}
	for next, elems := s.turn+1, 0; next < len(t.units) && elems < e.how.Ahead && !t.meets(next-1); next++ {
		more := 0
		for _, f := range e.needs[t.units[next]] {
			if f.mark != s.mark && !f.gathered() {
				more += f.gathers()
			}
		}
		if e.how.Live > 0 && s.live+more > e.how.Live {
			return
		}
		for _, f := range e.needs[t.units[next]] {
			if f.mark != s.mark {
				f.mark = s.mark
				elems += f.gathers()
				e.gather(f)
			}
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
	return e.how.Keep && e.g.Reshard == nil && e.step.training || e.trace.between(turn, next) < e.how.Reuse
}

// makeRoom lets go of what is kept or gathered ahead until unit i's parameters are within the
// bound too: first of what is used last.
func (e *Engine) makeRoom(i int) {
	if e.how.Live == 0 {
		return
	}
	s := &e.step
	s.mark++
	more := 0
	for _, f := range e.needs[i] {
		f.mark = s.mark
		if !f.gathered() {
			more += f.gathers()
		}
	}
	for more > 0 && s.live+more > e.how.Live {
		var last *flat
		at := 0
		for _, f := range e.flats {
			if next, _ := e.trace.next(f, s.turn); f.gathered() && f.mark != s.mark && next > at {
				last, at = f, next
			}
		}
		if last == nil {
			return
		}
		e.release(last, s.turn-1)
	}
}

// gather begins f's gather, unless it is gathered.
func (e *Engine) gather(f *flat) {
	if !f.comes() || f.gathered() {
		return
	}
	full := e.b.New(tensor.Gathered, f.param.DType(), f.padded)
	group, part := e.g.Shard, f.param
	var ops []op
	switch {
	case f.kept != nil:
		group, part = e.g.Reshard, f.kept
	case isFar(f.param):
		if part = full; f.divided() {
			f.part = e.b.New(tensor.Params, f.param.DType(), f.layout.param.n())
			part = f.part
		}
		ops = append(ops, e.fetch(f, part))
	}
	f.full = full
	e.step.live += f.gathers()
	if f.kept != nil || f.divided() {
		ops = append(ops, func(ctx context.Context) error { return group.AllGather(ctx, full, part, f.name) })
	}
	f.arrives = e.issue(ops...)
}

// ready waits for the gathers of unit i.
func (e *Engine) ready(i int) {
	for _, f := range e.needs[i] {
		if f.publish != nil {
			e.wait(f.publish)
			f.publish = nil
		}
		e.arrive(f)
	}
}

func (e *Engine) arrive(f *flat) {
	if f.arrives != nil {
		e.wait(f.arrives)
		f.arrives = nil
		if f.part != nil {
			f.part.Release()
			f.part = nil
		}
		f.bind(f.full)
	}
}

// release lets go of f after turn. Of what is needed on the way back Groups.Reshard keeps a copy.
func (e *Engine) release(f *flat, turn int) {
	e.arrive(f) // gathered ahead of a unit that did not run
	if _, used := e.trace.next(f, turn); !used {
		f.drop()
	} else if e.how.Keep && e.g.Reshard != nil && e.step.training && f.kept == nil {
		n := f.padded / e.g.Reshard.Size()
		at := e.g.Reshard.Rank() * n
		f.kept = e.b.New(tensor.Params, f.full.DType(), n)
		e.b.Copy(f.kept, f.full.Flat(at, at+n))
	}
	f.bind(nil)
	f.full.Release()
	f.full = nil
	e.step.live -= f.gathers()
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

// drop lets go of what Groups.Reshard keeps.
func (f *flat) drop() {
	if f.kept != nil {
		f.kept.Release()
		f.kept = nil
	}
}

// divided says whether the parameters at rest are a part of the flat.
func (f *flat) divided() bool { return f.layout.param.n() < f.padded }

// comes says whether the parameters are gathered when they are needed and let go of afterwards.
func (f *flat) comes() bool { return f.divided() || isFar(f.param) }

// gathered says whether the flat, which comes and goes, is whole here, or on its way.
func (f *flat) gathered() bool { return f.comes() && f.full != nil }

// gathers is how many elements a gather makes.
func (f *flat) gathers() int {
	if !f.comes() {
		return 0
	}
	return f.padded
}
