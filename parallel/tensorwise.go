package parallel

import (
	"slices"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/optim"
	"trireme/tensor"
)

// tensorwise updates a flat whose optimizer needs whole parameters (optim.Tensorwise). Matrices of equal shape
// are distributed evenly over the shards; the indices of this rank's are data, so every rank runs the
// same program.
type tensorwise struct {
	optim.Tensorwise
	*flat
	classes []class        // if the optimizer needs whole matrices
	counts  *tensor.Tensor // F64 [parameters]: elements of each, if the optimizer needs norms; shared by the stack
}

// class is a set of parameters of one shape and optimizer group.
type class struct {
	shape   tensor.Shape
	group   int              // index into Engine.settings
	members []int            // indices into the flat's parameters
	mine    []int32          // indices into members that this rank computes, padded with the last one to equal length on all ranks
	own     int              // length of mine without padding
	ids     *tensor.Tensor   // I32: mine; shared by the stack
	state   []*tensor.Tensor // per slot of whole matrices: [len(mine), elements]
}

func whole(o optim.Optimizer) []optim.Slot {
	return slices.DeleteFunc(o.Slots(), func(s optim.Slot) bool { return s.MatrixShape == nil })
}

// elements returns the slots of o with one element per parameter element, or per block of them.
func elements(o optim.Optimizer) []optim.Slot {
	return slices.DeleteFunc(o.Slots(), func(s optim.Slot) bool { return s.MatrixShape != nil })
}

// newTensorwise allocates the updates of a stack, after its pieces are set.
func (e *Engine) newTensorwise(o optim.Tensorwise, s stack) (js []*tensorwise) {
	n := len(s[0].params)
	ends := e.piecewise(s, n, func(f *flat, p *piece) []int64 { return f.paramEnds(p.span) })
	for _, f := range s {
		for i := range f.pieces {
			f.pieces[i].params = ends[i]
		}
		js = append(js, &tensorwise{Tensorwise: o, flat: f})
	}
	if _, ok := o.(optim.NormScaled); ok {
		counts := make([]float64, n)
		for i, p := range s[0].params {
			counts[i] = float64(p.Shape.Elems())
		}
		t := e.b.New(tensor.Workspace, tensor.F64, n)
		e.b.Upload(t, tensor.AsBytes(counts))
		for _, j := range js {
			j.counts = t
		}
	}
	if _, ok := o.(optim.Matrixwise); !ok {
		return js
	}
	for _, c := range e.classes(s[0]) {
		c.ids = e.b.New(tensor.Workspace, tensor.I32, len(c.mine))
		e.b.Upload(c.ids, tensor.AsBytes(c.mine))
		var states [][]*tensor.Tensor // per slot and flat
		for _, slot := range whole(o) {
			all := e.b.New(tensor.Optimizer, slot.DType, len(s)*len(c.mine)*slot.MatrixShape(c.shape).Elems())
			e.b.Fill(all, 0)
			states = append(states, split(all, len(s)))
		}
		for k, j := range js {
			c.state = nil
			for _, slot := range states {
				c.state = append(c.state, slot[k].Reshape(len(c.mine), slot[k].Elems()/len(c.mine)))
			}
			j.classes = append(j.classes, c)
		}
	}
	return js
}

// classes returns the classes of f's parameters, without memory.
func (e *Engine) classes(f *flat) (all []class) {
	for i, p := range f.params {
		c := slices.IndexFunc(all, func(c class) bool { return c.shape.Equal(p.Shape) && c.group == f.groups[i] })
		if c < 0 {
			c = len(all)
			all = append(all, class{shape: p.Shape, group: f.groups[i]})
		}
		all[c].members = append(all[c].members, i)
	}
	for i := range all {
		c := &all[i]
		per := (len(c.members) + e.mesh.Size(Shard) - 1) / e.mesh.Size(Shard)
		for k := range per {
			m := e.mesh.Coordinate(Shard)*per + k
			if c.mine = append(c.mine, int32(min(m, len(c.members)-1))); m < len(c.members) {
				c.own++
			}
		}
	}
	return all
}

func (l *layout) paramEnds(s span) []int64 {
	out := make([]int64, len(l.params))
	for i := range out {
		end := l.padded
		if i+1 < len(l.starts) {
			end = l.starts[i+1]
		}
		out[i] = int64(min(max(end, s.lo), s.hi) - s.lo)
	}
	return out
}

// each calls do for this rank's pieces of f, with a staging buffer if f is offloaded.
func (e *Engine) each(f *flat, writes span, do func(*piece, *stagingBuffer)) {
	if !f.offloaded() {
		do(&f.pieces[0], nil)
		return
	}
	e.stream(f.pieces, span{atMaster, len(f.tensors)}, writes, do)
}

// updateTensorwise updates j's flat. unscaled is scalars with scale 1.
func (e *Engine) updateTensorwise(j *tensorwise, hyper, scalars, unscaled *tensor.Tensor) {
	f, rows := j.flat, hyper.RowRange(j.settings.lo, j.settings.hi)
	held := f.optim
	if len(j.classes) > 0 {
		held = span{0, f.padded}
	}
	d := e.b.New(tensor.Buckets, tensor.F32, held.len())
	defer d.Release()
	e.b.Fill(d, 0) // a skipped step leaves it unchanged
	mine := f.at(d, held, f.optim)
	part := func(s span) *tensor.Tensor {
		if s == f.optim {
			return mine
		}
		return mine.Flat(s.lo-f.optim.lo, s.hi-f.optim.lo)
	}
	average, averaged := f.optimizer.(optim.Averaged)
	inner := func(s optim.Slice) optim.Slice {
		if averaged {
			return average.Inner(s)
		}
		return s
	}
	n := len(f.params)
	var sums *tensor.Tensor // I64 [2 x parameters x ExactWords]: of squares of parameters, then of directions
	if j.counts != nil {
		sums = e.b.New(tensor.Workspace, tensor.I64, 2*n*tensor.ExactWords)
		defer sums.Release()
		e.b.Fill(sums, 0)
	}
	e.each(f, span{atState, len(f.tensors)}, func(p *piece, s *stagingBuffer) {
		x := f.slice(p, s)
		j.Direction(e.b, part(p.span), inner(x), rows, scalars)
		if sums != nil {
			e.b.ExactSquares(sums.Flat(0, n*tensor.ExactWords), x.P, p.params)
		}
	})
	if len(j.classes) > 0 {
		if f.optim.len() < f.padded {
			e.wait(e.issue(allGather(e.mesh.Group(Shard), d, mine, f.unit.Name)))
		}
		for i := range j.classes {
			e.compute(j, &j.classes[i], d, hyper, scalars)
		}
	}
	rates := e.b.New(tensor.Workspace, tensor.F64, n, hyper.Width())
	defer rates.Release()
	for i, g := range f.groups {
		e.b.Copy(rates.RowRange(i, i+1), hyper.RowRange(g, g+1))
	}
	if sums != nil {
		for _, p := range f.pieces {
			e.b.ExactSquares(sums.Flat(n*tensor.ExactWords, 2*n*tensor.ExactWords), part(p.span), p.params)
		}
		if f.optim.len() < f.padded {
			e.wait(e.issue(allReduce(e.mesh.Group(Shard), sums, collective.Sum, f.unit.Name)))
		}
		norms := e.b.New(tensor.Workspace, tensor.F64, 2*n)
		defer norms.Release()
		e.b.ExactValues(norms, sums)
		of := func(t *tensor.Tensor) *tensor.Tensor { return t.Reshape(n, 1) }
		j.Tensorwise.(optim.NormScaled).AdjustRates(e.b, rates, optim.Norms{P: of(norms.Flat(0, n)), D: of(norms.Flat(n, 2*n)), Count: of(j.counts)})
	}
	e.each(f, span{atParam, len(f.tensors)}, func(p *piece, s *stagingBuffer) {
		x := f.slice(p, s)
		apply := inner(x)
		apply.Ends = p.params
		j.Apply(e.b, part(p.span), apply, rates, unscaled)
		if averaged {
			average.Average(e.b, x, rows, scalars)
		}
		if s != nil {
			e.castParams(p, s)
		}
	})
}

// compute replaces the directions of a class, in d, by the optimizer's result for whole matrices. Each
// rank computes its share and all-gathers the rest.
func (e *Engine) compute(j *tensorwise, c *class, d, hyper, scalars *tensor.Tensor) {
	n, shards := c.shape.Elems(), e.mesh.Size(Shard)
	all, mine := e.b.New(tensor.Buckets, tensor.F32, len(c.mine)*shards, n), e.b.New(tensor.Buckets, tensor.F32, len(c.mine), n)
	in := func(i int) *tensor.Tensor {
		at := j.starts[c.members[i]]
		return d.Flat(at, at+n)
	}
	for i := range c.members {
		e.b.Copy(all.RowRange(i, i+1).Reshape(n), in(i))
	}
	e.b.Fill(all.RowRange(len(c.members), all.Rows()), 0)
	e.b.GatherRows(mine, all, c.ids)
	for i := range c.mine {
		m := optim.Matrix{D: mine.RowRange(i, i+1).Reshape(c.shape...)}
		for _, s := range c.state {
			m.State = append(m.State, s.RowRange(i, i+1).Reshape(s.Width()))
		}
		j.Tensorwise.(optim.Matrixwise).Precondition(e.b, m, hyper.RowRange(c.group, c.group+1), scalars)
	}
	if shards > 1 {
		e.wait(e.issue(allGather(e.mesh.Group(Shard), all, mine, j.unit.Name)))
	} else {
		e.b.Copy(all, mine)
	}
	for i := range c.members {
		e.b.Copy(in(i), all.RowRange(i, i+1).Reshape(n))
	}
	all.Release()
	mine.Release()
}

// items lists this rank's state of whole matrices. Each matrix has one owner in a replica.
func (j *tensorwise) items() (out []checkpoint.Item) {
	for _, c := range j.classes {
		for k, slot := range whole(j.Tensorwise) {
			shape := slot.MatrixShape(c.shape)
			for i := range c.own {
				p := j.params[c.members[c.mine[i]]]
				out = append(out, checkpoint.Item{Kind: slot.Name, Shard: tensor.Shard{
					Name: p.Name, DType: slot.DType, Shape: shape, Box: tensor.FullBox(shape), Data: c.state[k].RowRange(i, i+1).Reshape(shape...),
				}})
			}
		}
	}
	return out
}
