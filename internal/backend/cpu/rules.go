package cpu

import (
	"fmt"
	"math"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// formula is a rule with a group's inputs h and the gradient scale.
func formula(rule tensor.UpdateRule, h []float64, scale float64) func(*elements) {
	lr, decay, d := h[tensor.InputLR], h[tensor.InputDecay], float32(scale)
	keep, rate := float32(1-lr*decay), float32(lr)
	switch r := rule.(type) {
	case tensor.AdamW:
		if r.L2 {
			return adam(r, h, d)
		}
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
		wd, momentum, weight := float32(decay), float32(r.Momentum), float32(h[tensor.SGDGradWeight])
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
				mi := flush(momentum*m[i] + weight*gi)
				m[i] = mi
				if r.Nesterov {
					mi = gi + momentum*mi
				}
				x.p[i] = p - rate*mi
			}
		}
	case tensor.Adagrad:
		wd, eps, initial := float32(decay), float32(r.Eps), float32(h[tensor.AdagradInitial])
		return func(x *elements) {
			s, g := x.s[0][:len(x.p)], x.g[:len(x.p)]
			for i, p := range x.p {
				gi := g[i]*d + wd*p
				s[i] += initial + gi*gi
				x.p[i] = p - rate*gi/(sqrt(s[i])+eps)
			}
		}
	case tensor.Average:
		weight := float32(h[tensor.AverageWeight])
		return func(x *elements) {
			a := x.s[0][:len(x.p)]
			if weight == 1 {
				copy(a, x.p)
				return
			}
			for i, p := range x.p {
				a[i] += weight * (p - a[i])
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
	case tensor.Momentum:
		weight := float32(1 - r.Beta)
		return func(x *elements) {
			m, g := x.s[0][:len(x.p)], x.g[:len(x.p)]
			for i := range x.p {
				gi := g[i] * d
				mi := flush(lerp(m[i], gi, weight))
				m[i], x.p[i] = mi, mi
				if r.Nesterov {
					x.p[i] = lerp(gi, mi, 1-weight)
				}
			}
		}
	case tensor.Descent:
		d *= float32(h[tensor.DescentScale])
		if r.Beta == 0 {
			return func(x *elements) {
				for i, p := range x.p {
					x.p[i] = keep*p - rate*(x.g[i]*d)
				}
			}
		}
		beta, weight := float32(r.Beta), float32(1-r.Beta)
		return func(x *elements) {
			m, g := x.s[0][:len(x.p)], x.g[:len(x.p)]
			for i, p := range x.p {
				mi := flush(beta*m[i] + weight*(rate*(g[i]*d)))
				m[i], x.p[i] = mi, keep*p-mi
			}
		}
	case tensor.LAMB:
		beta1, new1, beta2, new2 := float32(r.Beta1), float32(1-r.Beta1), float32(r.Beta2), float32(1-r.Beta2)
		wd, eps, inside := float32(decay), float32(r.Eps), float32(0)
		if r.EpsInside {
			eps, inside = 0, eps
		}
		return func(x *elements) {
			n := len(x.p)
			m, v, w, g := x.s[0][:n], x.s[1][:n], x.s[2][:n], x.g[:n]
			for i := range x.p {
				gi := g[i] * d
				mi, vi := flush(beta1*m[i]+new1*gi), flush(beta2*v[i]+new2*(gi*gi))
				m[i], v[i] = mi, vi
				x.p[i] = mi/(float32(math.Sqrt(float64(vi+inside)))+eps) + wd*w[i]
			}
		}
	case tensor.Adafactor:
		keep, weight, eps := float32(h[tensor.AdafactorBeta2]), float32(1-h[tensor.AdafactorBeta2]), float32(r.Eps)
		return func(x *elements) {
			v, g := x.s[0][:len(x.p)], x.g[:len(x.p)]
			for i := range x.p {
				gi := g[i] * d
				v[i] = keep*v[i] + weight*(gi*gi+eps)
				x.p[i] = gi / float32(math.Sqrt(float64(v[i])))
			}
		}
	}
	panic(fmt.Sprintf("cpu: update: no formula of %T", rule))
}

// adam is AdamW with L2.
func adam(r tensor.AdamW, h []float64, d float32) func(*elements) {
	wd, beta1, new1, beta2, new2 := float32(h[tensor.InputDecay]), float32(r.Beta1), float32(1-r.Beta1), float32(r.Beta2), float32(1-r.Beta2)
	rate, root, eps := float32(h[tensor.InputLR]/h[tensor.AdamBias1]), float32(1/math.Sqrt(h[tensor.AdamBias2])), float32(r.Eps)
	return func(x *elements) {
		m, v, g := x.s[0][:len(x.p)], x.s[1][:len(x.p)], x.g[:len(x.p)]
		for i, p := range x.p {
			gi := g[i]*d + wd*p
			m[i], v[i] = flush(beta1*m[i]+new1*gi), flush(beta2*v[i]+new2*gi*gi)
			x.p[i] = p - rate*m[i]/(sqrt(v[i])*root+eps)
		}
	}
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// lerp rounds as torch.lerp does.
func lerp(a, b, weight float32) float32 {
	if weight < 0.5 {
		return a + weight*(b-a)
	}
	return b - (b-a)*(1-weight)
}

// flush is x, or 0 if x is subnormal; see kernel.AdamW.
func flush(x float32) float32 {
	if math.Float32bits(x)&0x7f800000 == 0 {
		return 0
	}
	return x
}
