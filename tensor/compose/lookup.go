package compose

import "trireme/tensor"

// ScatterRows adds rows at their targets; ignored rows add 0.
func (o Ops) ScatterRows(x, at *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	n := at.Elems()
	goes := s.Binary(Column(at), s.Iota(tensor.I32, n, 1, 0), tensor.Ge)
	rows := s.New(x.DType(), n, x.Width())
	o.c.Select(rows, goes, x.RowRange(0, n), s.Scalar(Wide(x.DType()), 0))
	o.c.ScatterAdd(x, rows, at, tensor.NoPadding, false)
}

// CrossEntropy: with m = max(x) and z = sum exp(x-m) per row, the loss is m + log z - x[label] and
// the gradient exp(x-m)/z - onehot(label).
func (o Ops) CrossEntropy(loss, logits, labels *tensor.Tensor, grad bool) {
	s := NewScope(o.c)
	defer s.Release()
	if logits.Rows() == 0 {
		return
	}
	label := Column(labels)
	is := s.Binary(s.Iota(tensor.I32, 1, logits.Width(), 1), label, tensor.Eq)
	counted := s.With(label, tensor.Ge, 0)
	m := s.Reduce(logits, 1, tensor.Max)
	e := s.Unary(s.Sub(logits, m), tensor.Exp)
	z := s.Reduce(e, 1, tensor.Add)
	at := s.Reduce(s.Where(is, logits, 0), 1, tensor.Add)
	row := s.Sub(s.Add(m, s.Unary(z, tensor.Log)), at)
	sum := s.Reduce(s.As(tensor.F64, s.Where(counted, row, 0)), 0, tensor.Add)
	s.Put(loss, sum, true)
	if grad {
		s.Put(logits, s.Where(counted, s.Sub(s.Div(e, z), s.As(z.DType(), is)), 0), false)
	}
}

// CountClasses predicts the first column with the row's largest logit, and sums one-hot rows.
func (o Ops) CountClasses(counts, logits, labels *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	c := logits.Width()
	if logits.Rows() == 0 {
		return
	}
	label, column := Column(labels), s.Iota(tensor.I32, 1, c, 1)
	largest := s.Binary(logits, s.Reduce(logits, 1, tensor.Max), tensor.Eq)
	class := s.Reduce(s.Where(largest, column, float64(c)), 1, tensor.Min)
	counted := s.With(label, tensor.Ge, 0)
	there := s.Binary(column, label, tensor.Eq) // a negative label matches no column
	found := s.Binary(s.Binary(column, class, tensor.Eq), counted, tensor.And)
	for i, is := range []*tensor.Tensor{s.Binary(there, found, tensor.And), found, there} {
		s.Put(counts.Flat(i*c, (i+1)*c), s.Reduce(s.As(tensor.F64, is), 0, tensor.Add), true)
	}
}
