package compose

import (
	"math"

	"trireme/tensor"
)

func (o Ops) Add(dst, x, y *tensor.Tensor) { o.c.Binary(dst, x, y, tensor.Add) }

// AddScaled: dst += s src.
func (o Ops) AddScaled(dst, src *tensor.Tensor, factor float64) {
	s := NewScope(o.c)
	defer s.Release()
	s.Put(dst, s.With(src, tensor.Mul, factor), true)
}

// ScaleBy: dst = x factor, with factor rounded to x's arithmetic type.
func (o Ops) ScaleBy(dst, x, factor *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	o.c.Binary(dst, x, s.As(Wide(x.DType()), factor), tensor.Mul)
}

// AddBias: dst = x + bias, row by row.
func (o Ops) AddBias(dst, x, bias *tensor.Tensor) { o.c.Binary(dst, x, bias, tensor.Add) }

// BiasGrad: dbias (+)= sum over rows of dy.
func (o Ops) BiasGrad(dbias, dy *tensor.Tensor, accumulate bool) {
	s := NewScope(o.c)
	defer s.Release()
	s.Put(dbias, s.Reduce(dy, 0, tensor.Add), accumulate)
}

// SwiGLU: dst = gate sigmoid(gate) up.
func (o Ops) SwiGLU(dst, gate, up *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	s.Put(dst, s.Mul(s.Mul(gate, s.Unary(gate, tensor.Logistic)), up), false)
}

// SwiGLUBackward: with s = sigmoid(gate), dgate = dy up (s + gate s (1-s)), dup = dy gate s.
func (o Ops) SwiGLUBackward(dgate, dup, dy, gate, up *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	sig := s.Unary(gate, tensor.Logistic)
	silu := s.Mul(gate, sig)
	slope := s.Add(sig, s.Mul(silu, s.RSub(1, sig)))
	dg, du := s.Mul(s.Mul(dy, up), slope), s.Mul(dy, silu)
	s.Put(dgate, dg, false)
	s.Put(dup, du, false)
}

const (
	geluRoot = 0.79788456080286535588 // sqrt(2/pi)
	geluCube = 0.044715
)

// gelu returns Phi(x), or its approximation (1 + t)/2 with t = tanh(sqrt(2/pi) (x + 0.044715 x^3)).
func (s *Scope) gelu(x *tensor.Tensor, tanh bool) (phi, t *tensor.Tensor) {
	if tanh {
		cube := s.Mul(x, s.Mul(x, x))
		t = s.Unary(s.With(s.Add(x, s.With(cube, tensor.Mul, geluCube)), tensor.Mul, geluRoot), tensor.Tanh)
	} else {
		t = s.Unary(s.With(x, tensor.Mul, math.Sqrt2/2), tensor.Erf)
	}
	return s.With(s.With(t, tensor.Add, 1), tensor.Mul, 0.5), t
}

// GELU: dst = x Phi(x).
func (o Ops) GELU(dst, x *tensor.Tensor, tanh bool) {
	s := NewScope(o.c)
	defer s.Release()
	phi, _ := s.gelu(x, tanh)
	s.Put(dst, s.Mul(x, phi), false)
}

// GELUBackward: dx = dy (Phi(x) + x Phi'(x)). Phi' is exp(-x^2/2)/sqrt(2 pi), or for the
// approximation (1-t^2)/2 sqrt(2/pi) (1 + 3 0.044715 x^2).
func (o Ops) GELUBackward(dx, dy, x *tensor.Tensor, tanh bool) {
	s := NewScope(o.c)
	defer s.Release()
	phi, t := s.gelu(x, tanh)
	square := s.Mul(x, x)
	var density *tensor.Tensor
	if tanh {
		rest := s.RSub(1, s.Mul(t, t))
		inner := s.With(s.With(square, tensor.Mul, 3*geluCube), tensor.Add, 1)
		density = s.With(s.Mul(rest, inner), tensor.Mul, 0.5*geluRoot)
		density = s.Where(s.With(rest, tensor.Gt, 0), density, 0) // inner may be infinite if t is 1 or -1
	} else {
		density = s.With(s.Unary(s.With(square, tensor.Mul, -0.5), tensor.Exp), tensor.Mul, 0.5*geluRoot)
	}
	s.Put(dx, s.Mul(dy, s.Add(phi, s.Mul(x, density))), false)
}

func (o Ops) Tanh(dst, x *tensor.Tensor) { o.c.Unary(dst, x, tensor.Tanh) }

// TanhBackward: dx = dy (1 - y^2).
func (o Ops) TanhBackward(dx, dy, y *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	s.Put(dx, s.Mul(dy, s.RSub(1, s.Mul(y, y))), false)
}

// Rope: for halves a, b of a head and c, s of the row's angles, a' = a c - b s, b' = b c + a s.
// inverse negates s.
func (o Ops) Rope(dst, x, cos, sin, positions *tensor.Tensor, headDim int, inverse bool) {
	s := NewScope(o.c)
	defer s.Release()
	rows, heads, half := x.Rows(), x.Width()/headDim, headDim/2
	ids := s.New(tensor.I32, rows, heads) // one per head
	o.c.Binary(ids, Column(positions), s.Scalar(tensor.I32, 0), tensor.Add)
	angle := func(table *tensor.Tensor) *tensor.Tensor {
		t := s.New(Wide(table.DType()), rows*heads, half)
		o.c.GatherRows(t, table, ids.Reshape(rows*heads))
		return t
	}
	c, sn := angle(cos), angle(sin)
	if inverse {
		sn = s.With(sn, tensor.Mul, -1)
	}
	in := s.Floats(x).Reshape(rows*heads, headDim)
	a, b := in.Cols(0, half), in.Cols(half, headDim)
	out := s.New(in.DType(), rows*heads, headDim)
	s.Put(out.Cols(0, half), s.Sub(s.Mul(a, c), s.Mul(b, sn)), false)
	s.Put(out.Cols(half, headDim), s.Add(s.Mul(b, c), s.Mul(a, sn)), false)
	s.Put(dst, out, false)
}
