package compose

import (
	"fmt"

	"trireme/tensor"
)

// update is one call, on columns of F32.
type update struct {
	*Scope
	d     *tensor.Tensor   // scaled gradient
	p     *tensor.Tensor   // old parameters
	s     []*tensor.Tensor // old state
	hyper *tensor.Tensor   // F64 [groups, inputs]
	group *tensor.Tensor   // I32 [elements], group of each
}

// Update computes new values for all elements, and selects the old ones if the step is skipped.
func (o Ops) Update(rule tensor.UpdateRule, p *tensor.Tensor, state []*tensor.Tensor, g, ends, hyper, scalars *tensor.Tensor) {
	all := p.Elems()
	if all == 0 {
		return
	}
	parts, n := 1, all
	if len(p.Shape()) == 2 {
		parts, n = p.Rows(), p.Width()
	}
	s := NewScope(o.c)
	defer s.Release()
	u := &update{Scope: s, p: Column(p), hyper: hyper}
	k := rule.States()
	bytes := len(state) == 2*k && k > 0
	for i, t := range state[:k] {
		if bytes {
			t = s.dequantize(t, state[k+i], !tensor.Unsigned(rule, i))
		}
		u.s = append(u.s, Column(t))
	}
	at := s.Iota(tensor.I64, n, 1, 0) // in a part
	if parts > 1 {
		none := s.New(tensor.I64, parts, 1)
		o.c.Fill(none, 0)
		at = Column(s.Binary(none, at.Reshape(1, n), tensor.Add))
	}
	passed := s.Binary(ends.Reshape(1, ends.Elems()), at, tensor.Le)
	u.group = s.Reduce(s.As(tensor.I32, passed), 1, tensor.Add).Reshape(all)
	u.d = s.Mul(Column(g), s.As(tensor.F32, element(scalars, tensor.ScalarScale)))
	p1, s1 := u.next(rule)
	apply := s.With(element(scalars, tensor.ScalarApply), tensor.Ne, 0)
	s.Put(p, s.Select(apply, p1, u.p), false)
	for i, t := range state[:k] {
		if !bytes {
			s.Put(t, s.Select(apply, s1[i], u.s[i]), false)
			continue
		}
		codes, scales := s.quantize(s1[i], !tensor.Unsigned(rule, i))
		s.Put(t, s.Select(apply, codes, Column(t)), false)
		s.Put(state[k+i], s.Select(apply, scales, Column(state[k+i])), false)
	}
}

// input is column i of hyper.
func (u *update) input(i int) *tensor.Tensor { return u.hyper.Cols(i, i+1) }

// perElement broadcasts a column of F64 over groups to F32 over elements.
func (u *update) perElement(x *tensor.Tensor) *tensor.Tensor {
	y := u.New(tensor.F32, u.p.Rows(), 1)
	u.c.GatherRows(y, u.As(tensor.F32, x), u.group)
	return y
}

// mix is beta x + (1-beta) y.
func (u *update) mix(beta float64, x, y *tensor.Tensor) *tensor.Tensor {
	return u.Add(u.With(x, tensor.Mul, beta), u.With(y, tensor.Mul, 1-beta))
}

// decayed is p (1 - lr decay).
func (u *update) decayed() *tensor.Tensor {
	return u.Mul(u.p, u.perElement(u.RSub(1, u.Mul(u.input(tensor.InputLR), u.input(tensor.InputDecay)))))
}

// regularized is d + decay p.
func (u *update) regularized() *tensor.Tensor {
	return u.Add(u.d, u.Mul(u.p, u.perElement(u.input(tensor.InputDecay))))
}

// next has the formulas of tensor/rules.go.
func (u *update) next(rule tensor.UpdateRule) (p *tensor.Tensor, s []*tensor.Tensor) {
	lr := u.input(tensor.InputLR)
	switch r := rule.(type) {
	case tensor.AdamW:
		d, kept := u.d, u.p
		if r.L2 {
			d = u.regularized()
		} else {
			kept = u.decayed()
		}
		m, v := u.mix(r.Beta1, u.s[0], d), u.mix(r.Beta2, u.s[1], u.Mul(d, d))
		rate := u.perElement(u.Div(lr, u.input(tensor.AdamBias1)))
		root := u.perElement(u.Unary(u.input(tensor.AdamBias2), tensor.Sqrt))
		scale := u.With(u.Div(u.Unary(v, tensor.Sqrt), root), tensor.Add, r.Eps)
		return u.Sub(kept, u.Div(u.Mul(rate, m), scale)), []*tensor.Tensor{m, v}
	case tensor.Adagrad:
		d := u.regularized()
		sum := u.Add(u.Add(u.s[0], u.perElement(u.input(tensor.AdagradInitial))), u.Mul(d, d))
		scale := u.With(u.Unary(sum, tensor.Sqrt), tensor.Add, r.Eps)
		return u.Sub(u.p, u.Div(u.Mul(u.perElement(lr), d), scale)), []*tensor.Tensor{sum}
	case tensor.Average:
		away := u.Sub(u.p, u.s[0])
		return u.p, []*tensor.Tensor{u.Add(u.s[0], u.Mul(away, u.perElement(u.input(tensor.AverageWeight))))}
	case tensor.SGD:
		d := u.regularized()
		if r.Momentum != 0 {
			m := u.Add(u.With(u.s[0], tensor.Mul, r.Momentum), u.Mul(d, u.perElement(u.input(tensor.SGDGradWeight))))
			s = []*tensor.Tensor{m}
			if r.Nesterov {
				d = u.Add(d, u.With(m, tensor.Mul, r.Momentum))
			} else {
				d = m
			}
		}
		return u.Sub(u.p, u.Mul(u.perElement(lr), d)), s
	case tensor.Lion:
		c, rate := u.mix(r.Beta1, u.s[0], u.d), u.perElement(lr)
		sign := u.Sub(u.As(tensor.F32, u.With(c, tensor.Gt, 0)), u.As(tensor.F32, u.With(c, tensor.Lt, 0)))
		return u.Sub(u.decayed(), u.Mul(rate, sign)), []*tensor.Tensor{u.mix(r.Beta2, u.s[0], u.d)}
	case tensor.Momentum:
		m := u.Add(u.s[0], u.With(u.Sub(u.d, u.s[0]), tensor.Mul, 1-r.Beta))
		if p = m; r.Nesterov {
			p = u.Sub(m, u.With(u.Sub(m, u.d), tensor.Mul, 1-r.Beta))
		}
		return p, []*tensor.Tensor{m}
	case tensor.Descent:
		d := u.Mul(u.perElement(lr), u.Mul(u.d, u.perElement(u.input(tensor.DescentScale))))
		if r.Beta != 0 {
			d = u.mix(r.Beta, u.s[0], d)
			s = []*tensor.Tensor{d}
		}
		return u.Sub(u.decayed(), d), s
	case tensor.LAMB:
		m, v := u.mix(r.Beta1, u.s[0], u.d), u.mix(r.Beta2, u.s[1], u.Mul(u.d, u.d))
		var root *tensor.Tensor
		if r.EpsInside {
			root = u.Unary(u.With(v, tensor.Add, r.Eps), tensor.Sqrt)
		} else {
			root = u.With(u.Unary(v, tensor.Sqrt), tensor.Add, r.Eps)
		}
		return u.Add(u.Div(m, root), u.Mul(u.s[2], u.perElement(u.input(tensor.InputDecay)))), []*tensor.Tensor{m, v, u.s[2]}
	case tensor.Adafactor:
		beta := u.input(tensor.AdafactorBeta2)
		v := u.Add(u.Mul(u.perElement(beta), u.s[0]), u.Mul(u.perElement(u.RSub(1, beta)), u.With(u.Mul(u.d, u.d), tensor.Add, r.Eps)))
		return u.Div(u.d, u.Unary(v, tensor.Sqrt)), []*tensor.Tensor{v}
	}
	panic(fmt.Sprintf("compose: update: no formula of %T", rule))
}
