package cpu

import (
	"math"

	"trireme/tensor"
)

func (b *Backend) Unary(dst, x *tensor.Tensor, op tensor.UnaryOp) {
	const name = "unary"
	in := [3]*tensor.Tensor{x}
	switch arithmetic(name, dst.DType(), x.DType()) {
	case tensor.F32:
		elementwise(b, name, dst, in, func(o, x, _, _ []float32) { unary(o, x, op) })
	case tensor.F64:
		elementwise(b, name, dst, in, func(o, x, _, _ []float64) { unary(o, x, op) })
	default:
		check(false, name, "%v is not a float tensor", x)
	}
}

func unary[F float32 | float64](o, x []F, op tensor.UnaryOp) {
	var f func(float64) float64
	switch op {
	case tensor.Abs:
		f = math.Abs
	case tensor.Exp:
		f = math.Exp
	case tensor.Log:
		f = math.Log
	case tensor.Log1p:
		f = math.Log1p
	case tensor.Sqrt:
		f = math.Sqrt
	case tensor.Tanh:
		f = math.Tanh
	case tensor.Erf:
		f = math.Erf
	case tensor.Logistic:
		f = func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	case tensor.Sin:
		f = math.Sin
	case tensor.Cos:
		f = math.Cos
	case tensor.Floor:
		f = math.Floor
	default:
		check(false, "unary", "operation %d", uint8(op))
	}
	for i, v := range x {
		o[i] = F(f(float64(v)))
	}
}

func (b *Backend) Binary(dst, x, y *tensor.Tensor, op tensor.BinaryOp) {
	const name = "binary"
	in, as := [3]*tensor.Tensor{x, y}, dst.DType()
	if op.Compares() {
		check(as == tensor.U8, name, "a comparison to %v", dst)
		as = x.DType()
	}
	dt := arithmetic(name, as, x.DType(), y.DType())
	whole := dt == tensor.I32 || dt == tensor.I64
	check(whole || op < tensor.Rem || op.Compares(), name, "%v of %v", op, dt)
	switch dt {
	case tensor.F32:
		elementwise(b, name, dst, in, func(o, x, y, _ []float32) { binary(o, x, y, op) })
	case tensor.F64:
		elementwise(b, name, dst, in, func(o, x, y, _ []float64) { binary(o, x, y, op) })
	case tensor.I32:
		elementwise(b, name, dst, in, func(o, x, y, _ []int32) {
			if op == tensor.Ushr {
				for i, v := range x {
					o[i] = int32(uint32(v) >> uint(y[i]))
				}
				return
			}
			integral(o, x, y, op)
		})
	default:
		elementwise(b, name, dst, in, func(o, x, y, _ []int64) {
			if op == tensor.Ushr {
				for i, v := range x {
					o[i] = int64(uint64(v) >> uint(y[i]))
				}
				return
			}
			integral(o, x, y, op)
		})
	}
}

// binary has the operations of all types.
func binary[A number](o, x, y []A, op tensor.BinaryOp) {
	x, y = x[:len(o)], y[:len(o)]
	switch op {
	case tensor.Add:
		for i, v := range x {
			o[i] = v + y[i]
		}
	case tensor.Sub:
		for i, v := range x {
			o[i] = v - y[i]
		}
	case tensor.Mul:
		for i, v := range x {
			o[i] = v * y[i]
		}
	case tensor.Div:
		for i, v := range x {
			o[i] = v / y[i]
		}
	case tensor.Max:
		for i, v := range x {
			o[i] = max(v, y[i])
		}
	case tensor.Min:
		for i, v := range x {
			o[i] = min(v, y[i])
		}
	default:
		for i, v := range x {
			o[i] = 0
			if w := y[i]; op == tensor.Eq && v == w || op == tensor.Ne && v != w || op == tensor.Lt && v < w ||
				op == tensor.Le && v <= w || op == tensor.Gt && v > w || op == tensor.Ge && v >= w {
				o[i] = 1
			}
		}
	}
}

// integral has the integer operations except Ushr.
func integral[I int32 | int64](o, x, y []I, op tensor.BinaryOp) {
	for i, v := range x {
		w := y[i]
		switch op {
		case tensor.Rem:
			o[i] = v % w
		case tensor.And:
			o[i] = v & w
		case tensor.Or:
			o[i] = v | w
		case tensor.Xor:
			o[i] = v ^ w
		case tensor.Shl:
			o[i] = v << uint(w)
		case tensor.Shr:
			o[i] = v >> uint(w)
		default:
			binary(o, x, y, op)
			return
		}
	}
}

func (b *Backend) Select(dst, cond, x, y *tensor.Tensor) {
	const name = "select"
	check(cond.DType() == tensor.U8, name, "the condition %v", cond)
	in := [3]*tensor.Tensor{cond, x, y}
	switch arithmetic(name, dst.DType(), x.DType(), y.DType()) {
	case tensor.F32:
		elementwise(b, name, dst, in, choose[float32])
	case tensor.F64:
		elementwise(b, name, dst, in, choose[float64])
	case tensor.I32:
		elementwise(b, name, dst, in, choose[int32])
	default:
		elementwise(b, name, dst, in, choose[int64])
	}
}

func choose[A number](o, cond, x, y []A) {
	cond, x, y = cond[:len(o)], x[:len(o)], y[:len(o)]
	for i, c := range cond {
		if c != 0 {
			o[i] = x[i]
		} else {
			o[i] = y[i]
		}
	}
}

func (b *Backend) Iota(dst *tensor.Tensor, dim int) {
	rows, width := dst.Rows(), dst.Width()
	check(dim == 0 || dim == 1, "iota", "dimension %d of %v", dim, dst)
	s := b.scratch(width * 8)
	defer s.release()
	row := elems[int64](s, tensor.I64)
	for i := range row {
		row[i] = int64(i)
	}
	for r := range rows {
		if dim == 0 {
			for i := range row {
				row[i] = int64(r)
			}
		}
		narrow(dst, r*dst.RowStride(), row)
	}
}

// Reduce splits rows, or columns for dim 0.
func (b *Backend) Reduce(dst, x *tensor.Tensor, dim int, op tensor.BinaryOp, acc tensor.DType) {
	const name = "reduce"
	arithmetic(name, dst.DType(), x.DType(), acc)
	check(op == tensor.Add || op == tensor.Max || op == tensor.Min, name, "by %v", op)
	check(dst.Contiguous() && (dim == 0 && dst.Elems() == x.Width() || dim == 1 && dst.Elems() == x.Rows()), name, "dimension %d of %v to %v", dim, x, dst)
	switch acc {
	case tensor.F32:
		reduce[float32](b, dst, x, dim, op)
	case tensor.F64:
		reduce[float64](b, dst, x, dim, op)
	case tensor.I32:
		reduce[int32](b, dst, x, dim, op)
	case tensor.I64:
		reduce[int64](b, dst, x, dim, op)
	default:
		check(false, name, "accumulation in %v", acc)
	}
}

func reduce[A number](b *Backend, dst, x *tensor.Tensor, dim int, op tensor.BinaryOp) {
	rows, width := x.Rows(), x.Width()
	check(op == tensor.Add || rows*width > 0 || dst.Elems() == 0, "reduce", "%v is empty", x)
	in, size := numbersOf[A](x, false), dtypeOf[A]().Size()
	const piece = pieceElems
	s := b.scratch(b.pool.threads * 2 * piece * size)
	defer s.release()
	tmp := elems[A](s, dtypeOf[A]())
	space := func(thread, i int) []A { return tmp[(thread*2+i)*piece:][:piece] }
	if dim == 0 {
		b.rows((width+piece-1)/piece, piece*max(1, rows), func(lo, hi, thread int) {
			for c := lo * piece; c < min(width, hi*piece); c += piece {
				sum := space(thread, 0)[:min(piece, width-c)]
				clear(sum)
				for r := range rows {
					v := in.load(r, c, len(sum), space(thread, 1))
					if r == 0 {
						copy(sum, v)
						continue
					}
					binary(sum, sum, v, op)
				}
				narrow(dst, c, sum)
			}
		})
		return
	}
	b.rows(rows, width, func(lo, hi, thread int) {
		for r := lo; r < hi; r++ {
			sum := space(thread, 0)[:1]
			sum[0] = 0
			for c := 0; c < width; c += piece {
				v := in.load(r, c, min(piece, width-c), space(thread, 1))
				if c == 0 {
					sum[0], v = v[0], v[1:]
				}
				join(&sum[0], v, op)
			}
			narrow(dst, r, sum)
		}
	})
}

func join[A number](sum *A, x []A, op tensor.BinaryOp) {
	s := *sum
	for _, v := range x {
		switch op {
		case tensor.Add:
			s += v
		case tensor.Max:
			s = max(s, v)
		default:
			s = min(s, v)
		}
	}
	*sum = s
}

func (b *Backend) Swap(dst, x *tensor.Tensor) {
	d, s := dst.Shape(), x.Shape()
	check(len(d) == 4 && len(s) == 4 && d[0] == s[0] && d[1] == s[2] && d[2] == s[1] && d[3] == s[3], "swap", "%v to %v", x, dst)
	check(dst.DType() == x.DType() && dst.Contiguous() && x.Contiguous(), "swap", "%v to %v", x, dst)
	out, in, run := tensor.HostBytes(dst), tensor.HostBytes(x), s[3]*x.DType().Size()
	b.rows(s[0]*s[1], s[2]*s[3], func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			first := (i/s[1]*s[1]*s[2] + i%s[1]) * run
			for j := range s[2] {
				copy(out[first+j*s[1]*run:][:run], in[(i*s[2]+j)*run:])
			}
		}
	})
}
