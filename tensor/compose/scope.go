package compose

import "trireme/tensor"

// Scope allocates the results of its methods (Workspace) until Release. Values are matrices; one
// row or one column broadcasts.
type Scope struct {
	c     tensor.Core
	temps []*tensor.Tensor
}

// NewScope returns an empty scope.
func NewScope(c tensor.Core) *Scope { return &Scope{c: c} }

// Release frees all values of the scope.
func (s *Scope) Release() {
	for _, t := range s.temps {
		t.Release()
	}
	s.temps = nil
}

// New allocates a tensor.
func (s *Scope) New(dt tensor.DType, shape ...int) *tensor.Tensor {
	t := s.c.New(tensor.Workspace, dt, shape...)
	s.temps = append(s.temps, t)
	return t
}

// Scalar is v as a tensor [1].
func (s *Scope) Scalar(dt tensor.DType, v float64) *tensor.Tensor {
	t := s.New(dt, 1)
	s.c.Fill(t, v)
	return t
}

// Wide is the type in which floats of type dt compute: F32, or F64 for F64.
func Wide(dt tensor.DType) tensor.DType {
	if dt == tensor.F64 {
		return dt
	}
	return tensor.F32
}

// As converts x to a contiguous tensor of type dt; x itself if it is one.
func (s *Scope) As(dt tensor.DType, x *tensor.Tensor) *tensor.Tensor {
	if x.DType() == dt && x.Contiguous() {
		return x
	}
	t := s.New(dt, x.Rows(), x.Width())
	s.c.Copy(t, x)
	return t
}

// Floats converts x to Wide, contiguous.
func (s *Scope) Floats(x *tensor.Tensor) *tensor.Tensor { return s.As(Wide(x.DType()), x) }

// result allocates the broadcast result of an operation on xs.
func (s *Scope) result(dt tensor.DType, xs ...*tensor.Tensor) *tensor.Tensor {
	rows, width := 1, 1
	for _, x := range xs {
		if x.Rows() != 1 {
			rows = x.Rows()
		}
		if x.Width() != 1 {
			width = x.Width()
		}
	}
	return s.New(dt, rows, width)
}

// Unary is op(x).
func (s *Scope) Unary(x *tensor.Tensor, op tensor.UnaryOp) *tensor.Tensor {
	y := s.result(Wide(x.DType()), x)
	s.c.Unary(y, x, op)
	return y
}

// Binary is x op y.
func (s *Scope) Binary(x, y *tensor.Tensor, op tensor.BinaryOp) *tensor.Tensor {
	dt, _ := tensor.Arithmetic(x.DType(), y.DType())
	if op.Compares() || x.DType() == tensor.U8 && y.DType() == tensor.U8 {
		dt = tensor.U8
	}
	z := s.result(dt, x, y)
	s.c.Binary(z, x, y, op)
	return z
}

// With is x op v for a scalar v.
func (s *Scope) With(x *tensor.Tensor, op tensor.BinaryOp, v float64) *tensor.Tensor {
	dt, _ := tensor.Arithmetic(x.DType())
	if x.DType() == tensor.U8 {
		dt = tensor.U8
	}
	return s.Binary(x, s.Scalar(dt, v), op)
}

// Add is x + y.
func (s *Scope) Add(x, y *tensor.Tensor) *tensor.Tensor { return s.Binary(x, y, tensor.Add) }

// Sub is x - y.
func (s *Scope) Sub(x, y *tensor.Tensor) *tensor.Tensor { return s.Binary(x, y, tensor.Sub) }

// Mul is x * y.
func (s *Scope) Mul(x, y *tensor.Tensor) *tensor.Tensor { return s.Binary(x, y, tensor.Mul) }

// Div is x / y.
func (s *Scope) Div(x, y *tensor.Tensor) *tensor.Tensor { return s.Binary(x, y, tensor.Div) }

// RSub is v - x, floats only.
func (s *Scope) RSub(v float64, x *tensor.Tensor) *tensor.Tensor {
	return s.Sub(s.Scalar(Wide(x.DType()), v), x)
}

// Select is x if cond is not 0, else y.
func (s *Scope) Select(cond, x, y *tensor.Tensor) *tensor.Tensor {
	dt, _ := tensor.Arithmetic(x.DType(), y.DType())
	z := s.result(dt, cond, x, y)
	s.c.Select(z, cond, x, y)
	return z
}

// Where is x if cond is not 0, else v.
func (s *Scope) Where(cond, x *tensor.Tensor, v float64) *tensor.Tensor {
	dt, _ := tensor.Arithmetic(x.DType())
	return s.Select(cond, x, s.Scalar(dt, v))
}

// Reduce reduces x over rows to [1 D] (dim 0), or over columns to [N 1] (dim 1), in x's arithmetic
// type.
func (s *Scope) Reduce(x *tensor.Tensor, dim int, op tensor.BinaryOp) *tensor.Tensor {
	dt, _ := tensor.Arithmetic(x.DType())
	shape := [2]int{1, x.Width()}
	if dim == 1 {
		shape = [2]int{x.Rows(), 1}
	}
	y := s.New(dt, shape[:]...)
	s.c.Reduce(y, x, dim, op, dt)
	return y
}

// Mean is the mean of each row [N 1], floats only.
func (s *Scope) Mean(x *tensor.Tensor) *tensor.Tensor {
	return s.With(s.Reduce(x, 1, tensor.Add), tensor.Div, float64(x.Width()))
}

// Iota is row indices (dim 0) or column indices (dim 1).
func (s *Scope) Iota(dt tensor.DType, rows, width, dim int) *tensor.Tensor {
	t := s.New(dt, rows, width)
	s.c.Iota(t, dim)
	return t
}

// Swap transposes the middle dimensions of x as [A B C D] to [A C B D].
func (s *Scope) Swap(x *tensor.Tensor, a, b, c, d int) *tensor.Tensor {
	y := s.New(x.DType(), a, c, b, d)
	s.c.Swap(y, x.Reshape(a, b, c, d))
	return y
}

// Put stores x in dst, or adds it.
func (s *Scope) Put(dst, x *tensor.Tensor, add bool) {
	if x.Contiguous() {
		x = x.Reshape(dst.Shape()...)
	}
	if add {
		s.c.Binary(dst, dst, x, tensor.Add)
	} else {
		s.c.Copy(dst, x)
	}
}

// Column is t as [N 1].
func Column(t *tensor.Tensor) *tensor.Tensor { return t.Reshape(t.Elems(), 1) }
