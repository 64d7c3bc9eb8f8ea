package parallel

import (
	"fmt"
	"slices"

	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
)

// update is what one optimizer updates.
type update struct {
	optim.Elementwise
	resident []piece // in memory
	streamed []piece // in files: each comes to memory and goes back
}

// piece is elements of a flat that are updated at once.
type piece struct {
	f *flat
	span
	ends   *tensor.Tensor // I64 [groups]; nil where the flat is frozen
	params *tensor.Tensor // I64 [parameters], where a flat is updated jointly
	slice  optim.Slice    // of what rests in memory
}

// setting is how p is trained.
func setting(how optim.Grouping, p *nn.Param) optim.ParamOptions {
	s := how.Of(optim.Param{Name: p.Name, Shape: p.Shape, Hidden: p.Hidden})
	if s.Optimizer == nil {
		panic(fmt.Sprintf("parallel: %s trains and has no optimizer", p.Name))
	}
	return s
}

// settings lists those of all parameters that train in order of appearance, but those of one
// optimizer together. Every rank has the same list.
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

// rowsOf is where the settings of an optimizer lie among all; empty where there are none.
func rowsOf(all []optim.ParamOptions, o optim.Optimizer) (s span) {
	for i := range all {
		if all[i].Optimizer == o {
			if s.n() == 0 {
				s.lo = i
			}
			s.hi = i + 1
		}
	}
	return s
}

// block is what an optimizer's elements must be aligned to.
func block(o optim.Optimizer) int {
	n := 1
	if o != nil {
		for _, s := range o.Slots() {
			n = max(n, s.Block)
		}
		if j, ok := optim.AsTensorwise(o); ok {
			if _, ok := j.(optim.NormScaled); ok {
				n = max(n, tensor.SumBlock) // a parameter's squares are summed by themselves
			}
		}
	}
	return n
}

// ParamGroups lists the options of each group of parameters that is updated together.
func (e *Engine) ParamGroups() []optim.ParamOptions { return e.settings }

// cut divides what this rank updates of f into pieces: one, or sub-groups where state lies in a
// file.
func (e *Engine) cut(f *flat) {
	most := f.padded
	if f.streams() {
		if n := e.files.Optimizer.SubGroupSize; n > 0 {
			most = n
		}
		q := f.quantum()
		most = (most + q - 1) / q * q
	}
	for lo := f.optim.lo; lo < f.optim.hi; lo += most {
		f.pieces = append(f.pieces, piece{f: f, span: span{lo, min(lo+most, f.optim.hi)}})
	}
	if f.frozen {
		return
	}
	groups := f.settings.n()
	ends := e.b.New(tensor.Workspace, tensor.I64, len(f.pieces), groups)
	var at []int64
	for i := range f.pieces {
		p := &f.pieces[i]
		p.ends = ends.Flat(i*groups, (i+1)*groups)
		at = append(at, f.ends(p.span, f.settings.lo, groups)...)
		if !f.streams() {
			p.slice = f.slice(p, nil)
		}
	}
	e.b.Upload(ends, tensor.AsBytes(at))
	if o, ok := optim.AsTensorwise(f.optimizer); ok {
		e.joints = append(e.joints, e.newJoint(o, f))
		return
	}
	u := slices.IndexFunc(e.updates, func(u update) bool { return optim.Optimizer(u.Elementwise) == f.optimizer })
	if u < 0 {
		u = len(e.updates)
		e.updates = append(e.updates, update{Elementwise: f.optimizer.(optim.Elementwise)})
	}
	if f.streams() {
		e.updates[u].streamed = append(e.updates[u].streamed, f.pieces...)
	} else {
		e.updates[u].resident = append(e.updates[u].resident, f.pieces...)
	}
}

// Update updates this rank's parameters by the reduced gradients. Row i of hyper (F64) is the
// inputs of ParamGroups()[i]; scalars are Finish's.
func (e *Engine) Update(hyper, scalars *tensor.Tensor) {
	for _, u := range e.updates {
		rows := func(f *flat) *tensor.Tensor { return hyper.RowRange(f.settings.lo, f.settings.hi) }
		for _, p := range u.resident {
			u.Step(e.b, p.slice, rows(p.f), scalars)
		}
		e.stream(u.streamed, span{atMaster, atState + len(u.Slots())}, span{atParam, atState + len(u.Slots())}, func(p *piece, s *stage) {
			u.Step(e.b, p.f.slice(p, s), rows(p.f), scalars)
			e.narrow(p, s)
		})
	}
	for _, j := range e.joints {
		e.updateJointly(j, hyper, scalars)
	}
}

// remake makes the parameters that compute of f from masters, where one of the two lies in a file.
func (e *Engine) remake(f *flat) {
	e.stream(f.pieces, span{atMaster, atState}, span{atParam, atMaster}, e.narrow)
}

// narrow makes the parameters that compute of a piece from its masters.
func (e *Engine) narrow(p *piece, s *stage) {
	if f := p.f; f.master != f.param {
		e.b.Copy(f.local(atParam, p.span, s), f.local(atMaster, p.span, s))
	}
}

// slice is what the optimizer updates of a piece, some of which may be in s.
func (f *flat) slice(p *piece, s *stage) optim.Slice {
	x := optim.Slice{P: f.local(atMaster, p.span, s), G: f.at(f.grad, f.layout.grad, p.span), Ends: p.ends}
	for i := range f.held[atState:] {
		x.State = append(x.State, f.local(atState+i, p.span, s))
	}
	return x
}
