package parallel

import (
	"fmt"
	"slices"

	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
	"trireme/trace"
)

// update has the pieces that one element-wise optimizer updates.
type update struct {
	optim.Elementwise
	resident []piece // in memory
	streamed []piece // offloaded: each is read, updated and written
}

// piece is a range of a flat that is updated at once.
type piece struct {
	f *flat
	span
	ends   *tensor.Tensor // I64 [groups]; nil if the flat is frozen
	params *tensor.Tensor // I64 [parameters], for a Tensorwise optimizer
}

func setting(how optim.Grouping, p *nn.Param) optim.ParamOptions {
	s := how.Of(optim.Param{Name: p.Name, Shape: p.Shape, Hidden: p.Hidden})
	if s.Optimizer == nil {
		panic(fmt.Sprintf("parallel: parameter %s is trained but has no optimizer", p.Name))
	}
	return s
}

// settings lists the settings of all trained parameters in order of appearance, grouped by optimizer. The
// list is the same on every rank.
func settings(how optim.Grouping, units []*nn.Unit) (all []optim.ParamOptions) {
	for _, u := range units {
		for _, p := range u.Params {
			if p.Frozen {
				continue
			}
			s := setting(how, p)
			if slices.Contains(all, s) {
				continue
			}
			at := rowsOf(all, s.Optimizer).hi
			if at == 0 {
				at = len(all)
			}
			all = slices.Insert(all, at, s)
		}
	}
	return all
}

// rowsOf returns the range of an optimizer's settings in all; empty if it has none.
func rowsOf(all []optim.ParamOptions, o optim.Optimizer) (s span) {
	for i := range all {
		if all[i].Optimizer == o {
			if s.len() == 0 {
				s.lo = i
			}
			s.hi = i + 1
		}
	}
	return s
}

// block returns the alignment, in elements, that an optimizer needs.
func block(o optim.Optimizer) int {
	n := 1
	if o != nil {
		for _, s := range o.Slots() {
			n = max(n, s.Block)
		}
		if j, ok := optim.AsTensorwise(o); ok {
			if _, ok := j.(optim.NormScaled); ok {
				n = max(n, tensor.SumBlock) // squares are summed per parameter
			}
		}
	}
	return n
}

// ParamGroups lists the parameter groups: optimizer, learning-rate factor and weight decay of each.
func (e *Engine) ParamGroups() []optim.ParamOptions { return e.settings }

// split splits the ranges of a stack's flats that this rank updates into pieces: one, or sub-groups if the
// flat is offloaded.
func (e *Engine) split(s stack) {
	for _, f := range s {
		f.pieces = e.piecesOf(f)
	}
	if s[0].frozen {
		return
	}
	groups := s[0].settings.len()
	ends := e.piecewise(s, groups, func(f *flat, p *piece) []int64 { return f.ends(p.span, f.settings.lo, groups) })
	for _, f := range s {
		for i := range f.pieces {
			f.pieces[i].ends = ends[i]
		}
	}
	if o, ok := optim.AsTensorwise(s[0].optimizer); ok {
		e.tensorwise = append(e.tensorwise, e.newTensorwise(o, s)...)
		return
	}
	u := slices.IndexFunc(e.updates, func(u update) bool { return optim.Optimizer(u.Elementwise) == s[0].optimizer })
	if u < 0 {
		u = len(e.updates)
		e.updates = append(e.updates, update{Elementwise: s[0].optimizer.(optim.Elementwise)})
	}
	for _, f := range s {
		if f.offloaded() {
			e.updates[u].streamed = append(e.updates[u].streamed, f.pieces...)
		} else {
			e.updates[u].resident = append(e.updates[u].resident, f.pieces...)
		}
	}
}

// piecewise uploads n numbers per piece, which are the same for all flats of a stack.
func (e *Engine) piecewise(s stack, n int, of func(f *flat, p *piece) []int64) []*tensor.Tensor {
	pieces := s[0].pieces
	all := e.b.New(tensor.Workspace, tensor.I64, len(pieces), n)
	var at []int64
	for i := range pieces {
		at = append(at, of(s[0], &pieces[i])...)
	}
	e.b.Upload(all, tensor.AsBytes(at))
	return split(all, len(pieces))
}

func (e *Engine) piecesOf(f *flat) (pieces []piece) {
	most := f.padded
	if f.offloaded() {
		if n := e.files.Optimizer.SubGroupSize; n > 0 {
			most = n
		}
		q := f.subGroupAlign()
		most = (most + q - 1) / q * q
	}
	for lo := f.optim.lo; lo < f.optim.hi; lo += most {
		pieces = append(pieces, piece{f: f, span: span{lo, min(lo+most, f.optim.hi)}})
	}
	return pieces
}

// Update updates this rank's parameters from the reduced gradients. Row i of hyper (F64) has the inputs
// of ParamGroups()[i]; scalars is the result of Finish.
func (e *Engine) Update(hyper, scalars *tensor.Tensor) {
	if !e.static {
		defer e.trace.End(e.trace.Begin(trace.Span{Kind: trace.Optimizer}))
	}
	for _, u := range e.updates {
		rows := func(f *flat) *tensor.Tensor { return hyper.RowRange(f.settings.lo, f.settings.hi) }
		for _, p := range u.resident {
			u.Step(e.b, p.f.slice(&p, nil), rows(p.f), scalars)
		}
		e.stream(u.streamed, span{atMaster, atState + len(u.Slots())}, span{atParam, atState + len(u.Slots())}, func(p *piece, s *stagingBuffer) {
			u.Step(e.b, p.f.slice(p, s), rows(p.f), scalars)
			e.castParams(p, s)
		})
	}
	if len(e.tensorwise) == 0 {
		return
	}
	unscaled := e.b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount) // for directions, which are scaled
	defer unscaled.Release()
	e.b.Copy(unscaled, scalars)
	e.b.Fill(unscaled.Flat(tensor.ScalarScale, tensor.ScalarScale+1), 1)
	for _, j := range e.tensorwise {
		e.updateTensorwise(j, hyper, scalars, unscaled)
	}
}

// castOffloaded casts f's masters to compute parameters, if either is offloaded.
func (e *Engine) castOffloaded(f *flat) {
	e.stream(f.pieces, span{atMaster, atState}, span{atParam, atMaster}, e.castParams)
}

func (e *Engine) castParams(p *piece, s *stagingBuffer) {
	if f := p.f; f.master != f.param {
		e.b.Copy(f.local(atParam, p.span, s), f.local(atMaster, p.span, s))
	}
}

// slice returns the tensors that the optimizer updates for a piece; offloaded ones are in s.
func (f *flat) slice(p *piece, s *stagingBuffer) optim.Slice {
	x := optim.Slice{P: f.local(atMaster, p.span, s), G: f.at(f.grad, f.layout.grad, p.span), Ends: p.ends}
	for i := range f.tensors[atState:] {
		x.State = append(x.State, f.local(atState+i, p.span, s))
	}
	return x
}
