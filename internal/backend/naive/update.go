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
		s[0] = r.Beta1*s[0] + (1-r.Beta1)*d
		s[1] = r.Beta2*s[1] + (1-r.Beta2)*d*d
		return p*(1-lr*decay) - lr/h[tensor.AdamBias1]*s[0]/(math.Sqrt(s[1])/math.Sqrt(h[tensor.AdamBias2])+r.Eps)
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
	}
	panic(fmt.Sprintf("naive: no formula of %T", rule))
}
