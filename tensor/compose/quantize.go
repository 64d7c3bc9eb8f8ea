package compose

import (
	"slices"

	"trireme/tensor"
)

// table is a column of constants.
func (s *Scope) table(v []float32) *tensor.Tensor {
	t := s.New(tensor.F32, len(v), 1)
	for i, x := range v {
		s.c.Fill(t.RowRange(i, i+1), float64(x))
	}
	return t
}

// blocks is x in rows of StateBlock elements, padded with zeros.
func (s *Scope) blocks(dt tensor.DType, x *tensor.Tensor) *tensor.Tensor {
	n := x.Elems()
	t := s.New(dt, (n+tensor.StateBlock-1)/tensor.StateBlock, tensor.StateBlock)
	s.c.Fill(t, 0)
	s.c.Copy(t.Flat(0, n), x.Flat(0, n))
	return t
}

// dequantize is 8-bit state as floats: map value times block scale.
func (s *Scope) dequantize(t, scales *tensor.Tensor, signed bool) *tensor.Tensor {
	m, _ := tensor.DynamicMap(signed)
	codes := s.blocks(tensor.I32, t)
	v := s.New(tensor.F32, codes.Elems(), 1)
	s.c.GatherRows(v, s.table(m[:]), codes.Reshape(codes.Elems()))
	return s.Mul(v.Reshape(codes.Shape()...), Column(scales)).Flat(0, t.Elems())
}

// quantize is x as columns of codes and block scales. A binary search over the midpoints finds the
// nearest map value.
func (s *Scope) quantize(x *tensor.Tensor, signed bool) (codes, scales *tensor.Tensor) {
	m, zero := tensor.DynamicMap(signed)
	slices.Sort(m[:])
	var means []float32
	for i, v := range m[1:] {
		means = append(means, float32((float64(m[i])+float64(v))/2))
	}
	between, n := s.table(means), x.Elems()
	in := s.blocks(tensor.F32, x)
	scales = s.Reduce(s.Unary(in, tensor.Abs), 1, tensor.Max)
	in = Column(s.Div(in, s.Select(s.With(scales, tensor.Gt, 0), scales, s.Scalar(tensor.F32, 1))))
	at := s.New(tensor.I32, in.Rows(), 1)
	s.c.Fill(at, 0)
	for step := len(m) / 2; step > 0; step /= 2 {
		mean := s.New(tensor.F32, in.Rows(), 1)
		s.c.GatherRows(mean, between, s.With(at, tensor.Add, float64(step-1)).Reshape(in.Rows()))
		above := s.As(tensor.I32, s.Binary(in, mean, tensor.Gt))
		at = s.Add(at, s.With(above, tensor.Mul, float64(step)))
	}
	code := s.With(s.With(at, tensor.Sub, float64(zero)), tensor.And, 255)
	return Column(code.Flat(0, n)), scales
}
