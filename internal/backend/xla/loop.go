package xla

import (
	"maps"
	"slices"

	"trireme/internal/backend/record"
	"trireme/tensor"
)

// loop emits l as a while loop. It carries the buffers that the body uses, flat; the contents that
// pass from one iteration to the next; and the rank's coordinates.
func (x *emission) loop(l *record.Loop) error {
	var outer []int           // buffers
	position := map[int]int{} // among the carried values, by buffer
	var carried []value
	var carries []int // locals of kind Carry
	for i := range l.Locals {
		switch a := &l.Locals[i]; a.Kind {
		case record.Whole, record.Slice:
			if _, ok := position[a.Buffer]; !ok {
				position[a.Buffer] = len(carried)
				outer = append(outer, a.Buffer)
				carried = append(carried, x.number(x.consolidate(x.at(a.Buffer)), a.DType))
			}
		case record.Carry:
			carries = append(carries, i)
		}
	}
	for _, i := range carries {
		a := &l.Locals[i]
		v := x.undefined(elems[a.DType], a.Elems)
		if a.Init.Buffer >= 0 {
			v = x.number(x.read(x.at(a.Init.Buffer), flatRegion(a.Init.Start, a.Elems), []int{a.Elems}), a.DType)
		}
		carried = append(carried, v)
	}
	axes := slices.Sorted(maps.Keys(x.coords))
	for _, axis := range axes {
		carried = append(carried, x.coords[axis])
	}
	coords := x.coords
	var failed error
	out := x.builder.loop(l.Count, carried, func(i value, in []value) []value {
		x.coords = map[string]value{}
		for k, axis := range axes {
			x.coords[axis] = in[len(in)-len(axes)+k]
		}
		x.selectStreams(i, l)
		next, err := x.iteration(l, i, in, position, len(outer), carries)
		if err != nil {
			failed = err
			return in
		}
		return next
	})
	x.coords, x.streams, x.locals = coords, nil, nil
	if failed != nil {
		return failed
	}
	for k, buf := range outer {
		c := x.at(buf)
		c.entries = []entry{{flatRegion(0, c.n), out[k]}}
	}
	for k, i := range carries {
		if a := &l.Locals[i]; a.Last.Buffer >= 0 {
			x.at(a.Last.Buffer).write(flatRegion(a.Last.Start, a.Elems), out[len(outer)+k])
		}
	}
	return nil
}

func (x *emission) at(buf int) *contents { return x.buffers[x.bufs[buf]] }

// iteration emits the body with the carried values in, and returns the next ones.
func (x *emission) iteration(l *record.Loop, i value, in []value, position map[int]int, outer int, carries []int) ([]value, error) {
	x.locals = make([]*tensor.Buffer, len(l.Locals))
	for k := range l.Locals {
		a := &l.Locals[k]
		x.locals[k] = x.buffer(a.Cat, a.DType, a.Elems)
		c := x.buffers[x.locals[k]]
		switch a.Kind {
		case record.Whole:
			c.write(flatRegion(0, a.Elems), in[position[a.Buffer]])
		case record.Slice:
			c.base = func() value {
				return x.dynamicSlice(in[position[a.Buffer]], []int{a.Elems}, x.start(a, i))
			}
		case record.Carry:
			c.write(flatRegion(0, a.Elems), in[outer+slices.Index(carries, k)])
		}
	}
	for k := range l.Body {
		if err := x.run(&l.Body[k]); err != nil {
			return nil, err
		}
	}
	next := slices.Clone(in)
	for k := range l.Locals {
		a := &l.Locals[k]
		if a.Kind != record.Whole && a.Kind != record.Slice || !a.Write || a.Dead {
			continue
		}
		v := x.content(l, k)
		if at := position[a.Buffer]; a.Kind == record.Whole {
			next[at] = v
		} else {
			next[at] = x.update(next[at], v, x.start(a, i))
		}
	}
	for k, c := range carries {
		next[outer+k] = x.content(l, l.Locals[c].Next)
	}
	return next, nil
}

// content is a local's flat contents.
func (x *emission) content(l *record.Loop, local int) value {
	return x.number(x.consolidate(x.buffers[x.locals[local]]), l.Locals[local].DType)
}

// start is a slice's first element in iteration i.
func (x *emission) start(a *record.Local, i value) value {
	size := x.at(a.Buffer).n
	if a.Stride == 0 {
		return x.offset(size, a.Start)
	}
	return x.binary("add", x.offset(size, a.Start), x.stride(size, i, a.Stride))
}

// selectStreams makes the streams of iteration i available to Words.
func (x *emission) selectStreams(i value, l *record.Loop) {
	x.streams = map[uint64]value{}
	for _, first := range slices.Sorted(maps.Keys(l.Streams)) {
		x.streams[first] = x.flat(x.dynamicSlice(x.words64(l.Streams[first]), []int{1}, i))
	}
}
