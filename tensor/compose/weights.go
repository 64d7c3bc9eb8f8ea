package compose

import "trireme/tensor"

// weights is the matrix w [N K] of bytes times the scales of its blocks.
func (s *Scope) weights(w, scales *tensor.Tensor) *tensor.Tensor {
	v := s.As(tensor.I32, w)
	v = s.Select(s.With(v, tensor.Ge, 128), s.With(v, tensor.Sub, 256), v) // two's complement
	f, all := s.As(scales.DType(), v), s.New(scales.DType(), w.Rows(), w.Width())
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
