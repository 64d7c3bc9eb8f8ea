package compose

import "trireme/tensor"

// signed is bytes in two's complement as floats.
func (s *Scope) signed(dt tensor.DType, w *tensor.Tensor) *tensor.Tensor {
	v := s.As(tensor.I32, w)
	return s.As(dt, s.Select(s.With(v, tensor.Ge, 128), s.With(v, tensor.Sub, 256), v))
}

// weights is the matrix w [N K] of bytes times the scales of its blocks.
func (s *Scope) weights(w, scales *tensor.Tensor) *tensor.Tensor {
	f, all := s.signed(scales.DType(), w), s.New(scales.DType(), w.Rows(), w.Width())
	for b := range scales.Width() {
		lo, hi := b*tensor.QuantBlock, min((b+1)*tensor.QuantBlock, w.Width())
		s.c.Binary(all.Cols(lo, hi), f.Cols(lo, hi), scales.Cols(b, b+1), tensor.Mul)
	}
	return all
}

// MatMulQuantized is the product by the dequantized matrix.
func (o Ops) MatMulQuantized(dst, x, w, scales *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	o.c.MatMul(dst, x, s.weights(w, scales), tensor.MatMulOp{TransB: true})
}

// GatherQuantized takes rows of the dequantized matrix.
func (o Ops) GatherQuantized(dst, w, scales, ids *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	o.c.GatherRows(dst, s.weights(w, scales), ids)
}

// WriteRowsQuantized scales each block by its largest magnitude / 127 and rounds. A block with a NaN or an infinity has a
// NaN for scale.
func (o Ops) WriteRowsQuantized(dst, scales, x, at *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	n, blocks := x.Rows(), scales.Width()
	v := s.Floats(x).Reshape(n*blocks, x.Width()/blocks)
	bad := s.Reduce(s.With(v, tensor.Mul, 0), 1, tensor.Add) // 0 or NaN
	top := s.Reduce(s.Unary(v, tensor.Abs), 1, tensor.Max)
	used := s.Binary(top, s.Scalar(top.DType(), 0x1p-119), tensor.Ge)
	scale := s.Where(used, s.With(top, tensor.Div, 127), 0)
	code := s.Unary(s.With(s.Div(v, s.Where(used, scale, 1)), tensor.Add, 0.5), tensor.Floor)
	code = s.Where(s.Binary(bad, bad, tensor.Eq), code, 1)
	o.c.WriteRows(dst, s.With(s.As(tensor.I32, code), tensor.And, 255).Reshape(n, x.Width()), at)
	o.c.WriteRows(scales, s.Add(scale, bad).Reshape(n, blocks), at)
}

// AttentionDecodeQuantized is attention over the dequantized keys and values.
func (o Ops) AttentionDecodeQuantized(out, q, kv, scales, at *tensor.Tensor, p tensor.AttentionParams) {
	s := NewScope(o.c)
	defer s.Release()
	rows, width := kv.Rows(), kv.Width()
	v := s.signed(scales.DType(), kv).Reshape(rows*2*p.KVHeads, p.E)
	v = s.Mul(v, Column(s.As(scales.DType(), scales))).Reshape(rows, width)
	o.AttentionDecode(out, q, v.Cols(0, width/2), v.Cols(width/2, width), at, p)
}
