package naive

import (
	"math"

	"trireme/tensor"
)

// Add is dst = a + b.
func (b *Backend) Add(dst, x, y *tensor.Tensor) {
	u, v := read(x), read(y)
	for i := range u {
		u[i] += v[i]
	}
	write(dst, u, false)
}

// AddScaled is dst += s*src.
func (b *Backend) AddScaled(dst, src *tensor.Tensor, s float64) {
	u := read(src)
	for i := range u {
		u[i] *= s
	}
	write(dst, u, true)
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// SwiGLU is silu(gate)*up.
func (b *Backend) SwiGLU(dst, gate, up *tensor.Tensor) {
	g, u := read(gate), read(up)
	for i := range g {
		g[i] = g[i] * sigmoid(g[i]) * u[i]
	}
	write(dst, g, false)
}

// SwiGLUBackward: silu'(g) = s + g s (1-s).
func (b *Backend) SwiGLUBackward(dgate, dup, dy, gate, up *tensor.Tensor) {
	d, g, u := read(dy), read(gate), read(up)
	dg, du := make([]float64, len(g)), make([]float64, len(g))
	for i := range g {
		s := sigmoid(g[i])
		dg[i] = d[i] * u[i] * (s + g[i]*s*(1-s))
		du[i] = d[i] * g[i] * s
	}
	write(dgate, dg, false)
	write(dup, du, false)
}

func gelu(x float64, tanh bool) (y, slope float64) {
	if tanh {
		c := math.Sqrt(2 / math.Pi)
		t := math.Tanh(c * (x + 0.044715*x*x*x))
		return 0.5 * x * (1 + t), 0.5*(1+t) + 0.5*x*(1-t*t)*c*(1+3*0.044715*x*x)
	}
	phi := 0.5 * (1 + math.Erf(x/math.Sqrt2))
	return x * phi, phi + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
}

// GELU is x*Phi(x).
func (b *Backend) GELU(dst, x *tensor.Tensor, tanh bool) {
	u := read(x)
	for i := range u {
		u[i], _ = gelu(u[i], tanh)
	}
	write(dst, u, false)
}

// GELUBackward multiplies by the slope.
func (b *Backend) GELUBackward(dx, dy, x *tensor.Tensor, tanh bool) {
	u, d := read(x), read(dy)
	for i := range u {
		_, slope := gelu(u[i], tanh)
		u[i] = d[i] * slope
	}
	write(dx, u, false)
}

// Tanh is tanh.
func (b *Backend) Tanh(dst, x *tensor.Tensor) {
	u := read(x)
	for i := range u {
		u[i] = math.Tanh(u[i])
	}
	write(dst, u, false)
}

// TanhBackward multiplies by 1-y^2.
func (b *Backend) TanhBackward(dx, dy, y *tensor.Tensor) {
	u, d := read(y), read(dy)
	for i := range u {
		u[i] = d[i] * (1 - u[i]*u[i])
	}
	write(dx, u, false)
}

// Rope rotates pair (i, i+E/2) of each head by the angle of its position.
func (b *Backend) Rope(dst, x, cos, sin, positions *tensor.Tensor, period, headDim int, inverse bool) {
	u := read(x)
	half, w := headDim/2, x.Width()
	for n := range x.Rows() {
		pos := n % max(1, period)
		if positions != nil {
			pos = int(get(positions, 0, n))
		}
		for h := 0; h < w; h += headDim {
			for i := range half {
				c, s := get(cos, pos, i), get(sin, pos, i)
				if inverse {
					s = -s
				}
				p, q := &u[n*w+h+i], &u[n*w+h+half+i]
				*p, *q = *p*c-*q*s, *q*c+*p*s
			}
		}
	}
	write(dst, u, false)
}

// SpreadRows moves rows apart.
func (b *Backend) SpreadRows(x, at *tensor.Tensor) {
	w := x.Width()
	out := make([]float64, x.Elems())
	for i := range at.Elems() {
		to := int(get(at, 0, i))
		for j := range w {
			if to < i {
				break // goes nowhere
			}
			out[to*w+j] = get(x, i, j)
		}
	}
	write(x, out, false)
}

// CrossEntropy is lse - logit[label], and softmax - onehot.
func (b *Backend) CrossEntropy(loss, logits, labels *tensor.Tensor, grad bool) {
	for n := range logits.Rows() {
		label, top, sum := int(get(labels, 0, n)), math.Inf(-1), 0.0
		for j := range logits.Width() {
			top = math.Max(top, get(logits, n, j))
		}
		for j := range logits.Width() {
			sum += math.Exp(get(logits, n, j) - top)
		}
		lse := top + math.Log(sum)
		if label >= 0 {
			set(loss, 0, 0, get(loss, 0, 0)+lse-get(logits, n, label))
		}
		for j := range logits.Width() {
			p := math.Exp(get(logits, n, j) - lse)
			if j == label {
				p--
			}
			if label < 0 {
				p = 0
			}
			set(logits, n, j, p)
		}
	}
}

// CountClasses counts what is right, found, and there.
func (b *Backend) CountClasses(counts, logits, labels *tensor.Tensor) {
	c := logits.Width()
	n := counts.Flat(0, 3*c)
	count := func(i int) { set(n, 0, i, get(n, 0, i)+1) }
	for row := range logits.Rows() {
		label, class := int(get(labels, 0, row)), 0
		for j := range c {
			if get(logits, row, j) > get(logits, row, class) {
				class = j
			}
		}
		if label < 0 {
			continue
		}
		if class == label {
			count(label)
		}
		count(c + class)
		count(2*c + label)
	}
}
