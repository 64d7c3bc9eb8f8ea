package compose

import "trireme/tensor"

// rstd is 1/sqrt(mean + eps) of a column of means.
func (s *Scope) rstd(mean *tensor.Tensor, eps float64) *tensor.Tensor {
	root := s.Unary(s.With(mean, tensor.Add, eps), tensor.Sqrt)
	return s.Div(s.Scalar(root.DType(), 1), root)
}

// RMSNorm: rstd = 1/sqrt(mean(x^2) + eps), then y by RecomputeRMSNorm.
func (o Ops) RMSNorm(y, rstd, sum, x, res, w *tensor.Tensor, eps float64) {
	s := NewScope(o.c)
	defer s.Release()
	if res != nil {
		o.Add(sum, x, res)
		x = sum
	}
	s.Put(rstd, s.rstd(s.Mean(s.Mul(x, x)), eps), false)
	o.RecomputeRMSNorm(y, x, rstd, w)
}

// RecomputeRMSNorm: y = x rstd w.
func (o Ops) RecomputeRMSNorm(y, x, rstd, w *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	s.Put(y, s.Mul(s.Mul(x, Column(rstd)), w), false)
}

// RMSNormBackward: with h = x rstd and g = dy w, dx = rstd (g - h mean(g h)), dw = sum of dy h.
func (o Ops) RMSNormBackward(dx, dw, dy, dres, x, rstd, w *tensor.Tensor, accumulate bool) {
	o.normBackward(dx, dw, nil, dy, dres, x, nil, rstd, w, accumulate)
}

// LayerNorm: mean = mean(x), rstd = 1/sqrt(mean((x-mean)^2) + eps), then y by RecomputeLayerNorm.
func (o Ops) LayerNorm(y, mean, rstd, sum, x, res, w, b *tensor.Tensor, eps float64) {
	s := NewScope(o.c)
	defer s.Release()
	if res != nil {
		o.Add(sum, x, res)
		x = sum
	}
	s.Put(mean, s.Mean(x), false)
	c := s.Sub(x, Column(mean))
	s.Put(rstd, s.rstd(s.Mean(s.Mul(c, c)), eps), false)
	o.RecomputeLayerNorm(y, x, mean, rstd, w, b)
}

// RecomputeLayerNorm: y = (x - mean) rstd w + b.
func (o Ops) RecomputeLayerNorm(y, x, mean, rstd, w, b *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	h := s.Mul(s.Sub(x, Column(mean)), Column(rstd))
	s.Put(y, s.Add(s.Mul(h, w), b), false)
}

// LayerNormBackward: with h = (x - mean) rstd and g = dy w, dx = rstd (g - mean(g) - h mean(g h)),
// dw = sum of dy h, db = sum of dy.
func (o Ops) LayerNormBackward(dx, dw, db, dy, dres, x, mean, rstd, w *tensor.Tensor, accumulate bool) {
	o.normBackward(dx, dw, db, dy, dres, x, mean, rstd, w, accumulate)
}

// normBackward is the backward of LayerNorm, or of RMSNorm if mean is nil.
func (o Ops) normBackward(dx, dw, db, dy, dres, x, mean, rstd, w *tensor.Tensor, accumulate bool) {
	s := NewScope(o.c)
	defer s.Release()
	r := Column(rstd)
	if mean != nil {
		x = s.Sub(x, Column(mean))
	}
	h, g := s.Mul(x, r), s.Mul(dy, w)
	d := s.Sub(g, s.Mul(h, s.Mean(s.Mul(g, h))))
	if mean != nil {
		d = s.Sub(d, s.Mean(g))
	}
	d = s.Mul(d, r)
	if dres != nil {
		d = s.Add(d, dres)
	}
	if dw != nil {
		s.Put(dw, s.Reduce(s.Mul(dy, h), 0, tensor.Add), accumulate)
	}
	if db != nil {
		s.Put(db, s.Reduce(dy, 0, tensor.Add), accumulate)
	}
	s.Put(dx, d, false)
}

// heads is x with a row per head.
func (s *Scope) heads(x *tensor.Tensor, headDim int) *tensor.Tensor {
	return s.Floats(x).Reshape(x.Elems()/headDim, headDim)
}

// HeadRMSNorm is RMSNorm with a row per head.
func (o Ops) HeadRMSNorm(y, rstd, x, w *tensor.Tensor, headDim int, eps float64) {
	s := NewScope(o.c)
	defer s.Release()
	in := s.heads(x, headDim)
	out := s.New(in.DType(), in.Shape()...)
	o.RMSNorm(out, rstd, nil, in, nil, w, eps)
	s.Put(y, out, false)
}

// HeadRMSNormBackward is RMSNormBackward with a row per head.
func (o Ops) HeadRMSNormBackward(dx, dw, dy, x, rstd, w *tensor.Tensor, headDim int, accumulate bool) {
	s := NewScope(o.c)
	defer s.Release()
	in, d := s.heads(x, headDim), s.heads(dy, headDim)
	out := s.New(in.DType(), in.Shape()...)
	o.RMSNormBackward(out, dw, d, nil, in, rstd, w, accumulate)
	s.Put(dx, out, false)
}
