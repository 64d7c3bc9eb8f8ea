package naive

import (
	"fmt"
	"math"

	"trireme/tensor"
)

// Update applies a rule element by element.
func (b *Backend) Update(rule tensor.UpdateRule, p *tensor.Tensor, state []*tensor.Tensor, g, ends, hyper, scalars *tensor.Tensor) {
	s := tensor.Host[float64](scalars)
	if s[tensor.ScalarApply] == 0 {
		return
	}
	if k := rule.States(); len(state) == 2*k && k > 0 {
		wide := make([]*tensor.Tensor, k)
		for i := range wide {
			wide[i] = b.dequantized(state[i], state[k+i], !tensor.Unsigned(rule, i))
			defer wide[i].Release()
		}
		b.Update(rule, p, wide, g, ends, hyper, scalars)
		for i := range wide {
			quantize(state[i], state[k+i], wide[i], !tensor.Unsigned(rule, i))
		}
		return
	}
	x := make([]float64, len(state))
	group := 0
	for i := range p.Elems() {
		for i == int(get(ends, 0, group)) {
			group++
		}
		h := make([]float64, rule.Inputs())
		for j := range h {
			h[j] = get(hyper, group, j)
		}
		for j, t := range state {
			x[j] = get(t, 0, i)
		}
		set(p, 0, i, element(rule, h, get(p, 0, i), get(g, 0, i)*s[tensor.ScalarScale], x))
		for j, t := range state {
			set(t, 0, i, x[j])
		}
	}
}

// element is parameter p after a step by gradient d with inputs h, whose states s are changed.
func element(rule tensor.UpdateRule, h []float64, p, d float64, s []float64) float64 {
	lr, decay := h[tensor.InputLR], h[tensor.InputDecay]
	switch r := rule.(type) {
	case tensor.AdamW:
		keep := 1 - lr*decay
		if r.L2 {
			keep = 1
			d += decay * p
		}
		s[0] = r.Beta1*s[0] + (1-r.Beta1)*d
		s[1] = r.Beta2*s[1] + (1-r.Beta2)*d*d
		return p*keep - lr/h[tensor.AdamBias1]*s[0]/(math.Sqrt(s[1])/math.Sqrt(h[tensor.AdamBias2])+r.Eps)
	case tensor.SGD:
		d += decay * p
		if r.Momentum != 0 {
			s[0] = r.Momentum*s[0] + h[tensor.SGDNew]*d
			if r.Nesterov {
				d += r.Momentum * s[0]
			} else {
				d = s[0]
			}
		}
		return p - lr*d
	case tensor.Adagrad:
		d += decay * p
		s[0] += h[tensor.AdagradInitial] + d*d
		return p - lr*d/(math.Sqrt(s[0])+r.Eps)
	case tensor.Average:
		s[0] += h[tensor.AverageNew] * (p - s[0])
		return p
	case tensor.Lion:
		p *= 1 - lr*decay
		switch c := r.Beta1*s[0] + (1-r.Beta1)*d; {
		case c > 0:
			p -= lr
		case c < 0:
			p += lr
		}
		s[0] = r.Beta2*s[0] + (1-r.Beta2)*d
		return p
	case tensor.Momentum:
		s[0] += (1 - r.Beta) * (d - s[0])
		if r.Nesterov {
			return d + r.Beta*(s[0]-d)
		}
		return s[0]
	case tensor.Descent:
		d *= lr * h[tensor.DescentScale]
		if r.Beta != 0 {
			s[0] = r.Beta*s[0] + (1-r.Beta)*d
			d = s[0]
		}
		return p*(1-lr*decay) - d
	case tensor.LAMB:
		s[0] = r.Beta1*s[0] + (1-r.Beta1)*d
		s[1] = r.Beta2*s[1] + (1-r.Beta2)*d*d
		root := math.Sqrt(s[1]) + r.Eps
		if r.EpsInside {
			root = math.Sqrt(s[1] + r.Eps)
		}
		return s[0]/root + decay*s[2]
	case tensor.Adafactor:
		s[0] = h[tensor.AdafactorBeta2]*s[0] + (1-h[tensor.AdafactorBeta2])*(d*d+r.Eps)
		return d / math.Sqrt(s[0])
	}
	panic(fmt.Sprintf("naive: no formula of %T", rule))
}

// dequantized is a state in bytes as F32.
func (b *Backend) dequantized(t, scales *tensor.Tensor, signed bool) *tensor.Tensor {
	m, _ := tensor.DynamicMap(signed)
	out := b.New(tensor.Workspace, tensor.F32, t.Elems())
	for i := range t.Elems() {
		set(out, 0, i, float64(m[int(get(t, 0, i))])*get(scales, 0, i/tensor.StateBlock))
	}
	return out
}

// quantize makes the bytes and the scales of x.
func quantize(t, scales, x *tensor.Tensor, signed bool) {
	m, _ := tensor.DynamicMap(signed)
	for at := 0; at < x.Elems(); at += tensor.StateBlock {
		end, scale := min(at+tensor.StateBlock, x.Elems()), 0.0
		for i := at; i < end; i++ {
			scale = max(scale, math.Abs(get(x, 0, i)))
		}
		set(scales, 0, at/tensor.StateBlock, scale)
		for i := at; i < end; i++ {
			nearest := 0
			for code, v := range m {
				d, best := math.Abs(get(x, 0, i)-float64(v)*scale), math.Abs(get(x, 0, i)-float64(m[nearest])*scale)
				if scale > 0 && (d < best || d == best && v < m[nearest]) {
					nearest = code
				}
			}
			set(t, 0, i, float64(nearest))
		}
	}
}
