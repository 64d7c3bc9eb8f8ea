package xla

import (
	"maps"
	"slices"

	"trireme/internal/backend/record"
	"trireme/tensor"
)

// loop emits l as a while loop. It carries the buffers that the body uses, flat, or the part of one that all
// iterations use; the contents that pass from one iteration to the next; and the rank's coordinates.
func (x *emission) loop(l *record.Loop) error {
	var outer []int           // buffers
	position := map[int]int{} // among the carried values, by buffer
	var carried []value
	var carries []int // locals of kind Carry
	used := x.used(l)
	for i := range l.Locals {
		switch a := &l.Locals[i]; a.Kind {
		case record.Whole, record.Slice:
			if _, ok := position[a.Buffer]; !ok {
				position[a.Buffer] = len(carried)
				outer = append(outer, a.Buffer)
				c, r := x.at(a.Buffer), used[a.Buffer]
				if r.width == c.n {
					x.consolidate(c)
				}
				carried = append(carried, x.number(x.read(c, r, []int{r.width}), a.DType))
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
		next, err := x.iteration(l, i, in, position, used, len(outer), carries)
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
		x.at(buf).write(used[buf], out[k])
	}
	for k, i := range carries {
		if a := &l.Locals[i]; a.Last.Buffer >= 0 {
			x.at(a.Last.Buffer).write(flatRegion(a.Last.Start, a.Elems), out[len(outer)+k])
		}
	}
	return nil
}

// used is the part of each buffer outside the loop that its iterations use, by buffer: all of it if that moves.
func (x *emission) used(l *record.Loop) map[int]region {
	parts := map[int]region{}
	use := func(buf, lo, hi int) {
		if r, ok := parts[buf]; ok {
			lo, hi = min(lo, r.off), max(hi, r.off+r.width)
		}
		parts[buf] = flatRegion(lo, hi-lo)
	}
	for i := range l.Locals {
		if a := &l.Locals[i]; a.Kind == record.Slice && a.Stride == 0 {
			use(a.Buffer, a.Start, a.Start+a.Elems)
		} else if a.Kind == record.Slice {
			use(a.Buffer, 0, x.at(a.Buffer).n)
		}
	}
	for i := range l.Body {
		for _, arg := range l.Body[i].Args {
			for _, v := range arg.Views {
				if v.Buffer < 0 || l.Locals[v.Buffer].Kind != record.Whole {
					continue
				}
				a := &l.Locals[v.Buffer]
				if lo, n := v.Span(); v.Axis == "" && v.DType == a.DType {
					use(a.Buffer, lo, lo+n)
				} else {
					use(a.Buffer, 0, a.Elems)
				}
			}
		}
	}
	return parts
}

func (x *emission) at(buf int) *contents { return x.buffers[x.bufs[buf]] }

// iteration emits the body with the carried values in, and returns the next ones.
func (x *emission) iteration(l *record.Loop, i value, in []value, position map[int]int, used map[int]region, outer int, carries []int) ([]value, error) {
	x.locals = make([]*tensor.Buffer, len(l.Locals))
	for k := range l.Locals {
		a := &l.Locals[k]
		x.locals[k] = x.buffer(a.Cat, a.DType, a.Elems)
		c := x.buffers[x.locals[k]]
		switch a.Kind {
		case record.Whole:
			c.write(used[a.Buffer], in[position[a.Buffer]])
		case record.Slice:
			all, off := in[position[a.Buffer]], used[a.Buffer].off
			c.base = func(r region) (value, bool) { return x.window(a, i, all, off, r) }
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
		at, r := position[a.Buffer], used[a.Buffer]
		if a.Kind == record.Whole {
			next[at] = x.number(x.read(x.buffers[x.locals[k]], r, []int{r.width}), a.DType)
			continue
		}
		next[at] = x.update(next[at], x.content(l, k), x.moved(r.width, a.Start-r.off, a.Stride, i))
	}
	for k, c := range carries {
		next[outer+k] = x.content(l, l.Locals[c].Next)
	}
	return next, nil
}

// window is region r of a slice in iteration i. all is the contents of its buffer from element off on. Each is a
// slice of its own, so that a compiler has it in the operation that reads it instead of a copy.
func (x *emission) window(a *record.Local, i, all value, off int, r region) (value, bool) {
	n, first := all.size(), a.Start-off+r.off
	if r.rows == 1 {
		return x.dynamicSlice(all, []int{r.width}, x.moved(n, first, a.Stride, i)), true
	}
	row, col := first/r.ld, first%r.ld
	if n%r.ld != 0 || a.Stride%r.ld != 0 || col+r.width > r.ld {
		return value{}, false
	}
	return x.dynamicSlice(x.reshape(all, n/r.ld, r.ld), []int{r.rows, r.width}, x.moved(n, row, a.Stride/r.ld, i), x.offset(n, col)), true
}

// content is a local's flat contents.
func (x *emission) content(l *record.Loop, local int) value {
	return x.number(x.consolidate(x.buffers[x.locals[local]]), l.Locals[local].DType)
}

// moved is index first + i*stride of an array of n elements.
func (x *emission) moved(n, first, stride int, i value) value {
	if stride == 0 {
		return x.offset(n, first)
	}
	return x.binary("add", x.offset(n, first), x.stride(n, i, stride))
}

// selectStreams makes the streams of iteration i available to Words.
func (x *emission) selectStreams(i value, l *record.Loop) {
	x.streams = map[uint64]value{}
	for _, first := range slices.Sorted(maps.Keys(l.Streams)) {
		x.streams[first] = x.flat(x.dynamicSlice(x.words64(l.Streams[first]), []int{1}, i))
	}
}
