package cpu

import (
	"fmt"
	"math"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// formula is a rule with a group's inputs h and the gradients' scale.
func formula(rule tensor.UpdateRule, h []float64, scale float64) func(*elements) {
	lr, decay, d := h[tensor.InputLR], h[tensor.InputDecay], float32(scale)
	keep, rate := float32(1-lr*decay), float32(lr)
	switch r := rule.(type) {
	case tensor.AdamW:
		step := kernel.AdamWStep{
			Keep:  keep,
			Beta1: float32(r.Beta1), New1: float32(1 - r.Beta1),
			Beta2: float32(r.Beta2), New2: float32(1 - r.Beta2),
			Rate:  float32(lr / h[tensor.AdamBias1]),
			Root:  float32(1 / math.Sqrt(h[tensor.AdamBias2])),
			Eps:   float32(r.Eps),
			Scale: d,
		}
		return func(x *elements) { kernel.AdamW(x.p, x.s[0], x.s[1], x.g, &step) }
	case tensor.SGD:
		wd, momentum, fresh := float32(decay), float32(r.Momentum), float32(h[tensor.SGDNew])
		if r.Momentum == 0 {
			return func(x *elements) {
				for i, p := range x.p {
					x.p[i] = p - rate*(x.g[i]*d+wd*p)
				}
			}
		}
		return func(x *elements) {
			m, g := x.s[0][:len(x.p)], x.g[:len(x.p)]
			for i, p := range x.p {
				gi := g[i]*d + wd*p
				mi := flush(momentum*m[i] + fresh*gi)
				m[i] = mi
				if r.Nesterov {
					mi = gi + momentum*mi
				}
				x.p[i] = p - rate*mi
			}
		}
	case tensor.Lion:
		beta1, new1, beta2, new2 := float32(r.Beta1), float32(1-r.Beta1), float32(r.Beta2), float32(1-r.Beta2)
		return func(x *elements) {
			m, g := x.s[0][:len(x.p)], x.g[:len(x.p)]
			for i, p := range x.p {
				gi := g[i] * d
				c := beta1*m[i] + new1*gi
				p *= keep
				switch {
				case c > 0:
					p -= rate
				case c < 0:
					p += rate
				}
				x.p[i], m[i] = p, flush(beta2*m[i]+new2*gi)
			}
		}
	}
	panic(fmt.Sprintf("cpu: update: no formula of %T", rule))
}

// flush is x, or 0 where x is subnormal: see kernel.AdamW.
func flush(x float32) float32 {
	if math.Float32bits(x)&0x7f800000 == 0 {
		return 0
	}
	return x
}
