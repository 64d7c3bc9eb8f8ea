package kernel

import "math"

// AdamWStep holds the float32 constants of one AdamW step.
type AdamWStep struct {
	Keep        float32 // 1 - lr*weight decay
	Beta1, New1 float32 // beta1, 1-beta1
	Beta2, New2 float32 // beta2, 1-beta2
	Rate        float32 // lr / (1-beta1^t)
	Root        float32 // 1 / sqrt(1-beta2^t)
	Eps         float32
	Scale       float32 // of the gradient
}

// AdamW updates p, m and v with the gradient g (Loshchilov and Hutter 2019):
//
//	g *= Scale; p *= Keep
//	m = Beta1*m + New1*g; v = Beta2*v + New2*g*g
//	p -= Rate * m / (sqrt(v)*Root + Eps)
//
// Subnormal moments are flushed to 0. Where a gradient stays 0, as in unused rows of an embedding,
// moments would decay to subnormal numbers and stay there, and arithmetic on those is about a
// hundred times slower.
func AdamW(p, m, v, g []float32, s *AdamWStep) { adamw(p, m, v, g, s) }

func adamwGeneric(p, m, v, g []float32, s *AdamWStep) {
	n := len(p)
	m, v, g = m[:n], v[:n], g[:n]
	for i := range p {
		d := g[i] * s.Scale
		mi := s.Beta1*m[i] + s.New1*d
		vi := s.Beta2*v[i] + s.New2*(d*d)
		mi, vi = flush(mi), flush(vi)
		m[i], v[i] = mi, vi
		root := float32(math.Sqrt(float64(vi)))
		p[i] = s.Keep*p[i] - s.Rate*mi/(root*s.Root+s.Eps)
	}
}

// flush returns x, or 0 if x is subnormal.
func flush(x float32) float32 {
	if math.Float32bits(x)&0x7f800000 == 0 {
		return 0
	}
	return x
}
