package cpu

import "trireme/tensor"

// number lists the arithmetic types of element-wise operations.
type number interface {
	float32 | float64 | int32 | int64
}

// dtypeOf is the element type of A.
func dtypeOf[A number]() tensor.DType {
	switch any(A(0)).(type) {
	case float32:
		return tensor.F32
	case float64:
		return tensor.F64
	case int32:
		return tensor.I32
	}
	return tensor.I64
}

// numbers is a tensor's rows as A, broadcast from one row or one column.
type numbers[A number] struct {
	t      *tensor.Tensor
	direct []A // nil if the elements are not A
	row    int // row stride, 0 to broadcast
	column bool
}

func numbersOf[A number](t *tensor.Tensor, column bool) numbers[A] {
	n := numbers[A]{t: t, row: t.RowStride(), column: column}
	if t.Rows() == 1 {
		n.row = 0
	}
	if t.DType() == dtypeOf[A]() {
		n.direct = tensor.Host[A](t)
	}
	return n
}

// load is columns [c, c+n) of row r, in tmp if converted.
func (x *numbers[A]) load(r, c, n int, tmp []A) []A {
	off := r * x.row
	switch {
	case x.t == nil:
		return nil
	case x.column:
		widen(tmp[:1], x.t, off)
		first := tmp[0]
		for i := range tmp[:n] {
			tmp[i] = first
		}
		return tmp[:n]
	case x.direct != nil:
		return x.direct[off+c:][:n]
	}
	widen(tmp[:n], x.t, off+c)
	return tmp[:n]
}

// dest is memory for columns [c, c+n) of row r, to pass to store.
func (x *numbers[A]) dest(r, c, n int, tmp []A) []A {
	if x.direct != nil {
		return x.direct[r*x.row+c:][:n]
	}
	return tmp[:n]
}

func (x *numbers[A]) store(r, c int, v []A) {
	if x.direct == nil {
		narrow(x.t, r*x.row+c, v)
	}
}

func cast[D, S number | uint8](dst []D, src []S) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = D(v)
	}
}

// castPiece is the number of 16-bit floats converted at once.
const castPiece = 256

// widen reads len(dst) elements of t's memory from element off.
func widen[A number](dst []A, t *tensor.Tensor, off int) {
	n := len(dst)
	switch t.DType() {
	case tensor.F32:
		cast(dst, tensor.Host[float32](t)[off:][:n])
	case tensor.F64:
		cast(dst, tensor.Host[float64](t)[off:][:n])
	case tensor.I32:
		cast(dst, tensor.Host[int32](t)[off:][:n])
	case tensor.I64:
		cast(dst, tensor.Host[int64](t)[off:][:n])
	case tensor.U8:
		cast(dst, tensor.Host[uint8](t)[off:][:n])
	default:
		var f [castPiece]float32
		o := floats("convert", t)
		for ; len(dst) > 0; dst = dst[n:] {
			n = min(len(dst), castPiece)
			cast(dst[:n], o.load(off, n, f[:]))
			off += n
		}
	}
}

// narrow writes v to t's memory from element off.
func narrow[A number](t *tensor.Tensor, off int, v []A) {
	n := len(v)
	switch t.DType() {
	case tensor.F32:
		cast(tensor.Host[float32](t)[off:][:n], v)
	case tensor.F64:
		cast(tensor.Host[float64](t)[off:][:n], v)
	case tensor.I32:
		cast(tensor.Host[int32](t)[off:][:n], v)
	case tensor.I64:
		cast(tensor.Host[int64](t)[off:][:n], v)
	case tensor.U8:
		cast(tensor.Host[uint8](t)[off:][:n], v)
	default:
		var f [castPiece]float32
		o := floats("convert", t)
		for ; len(v) > 0; v = v[n:] {
			n = min(len(v), castPiece)
			cast(f[:n], v[:n])
			o.store(off, f[:n])
			off += n
		}
	}
}

// elementwise computes dst in pieces from up to three operands; missing ones are nil. Operands
// broadcast from one row or one column.
func elementwise[A number](b *Backend, op string, dst *tensor.Tensor, operands [3]*tensor.Tensor, f func(o, x, y, z []A)) {
	rows, width := dst.Rows(), dst.Width()
	flat := dst.Contiguous()
	for _, t := range operands {
		if t != nil {
			r, w := t.Rows(), t.Width()
			check((r == rows || r == 1) && (w == width || w == 1), op, "%v with %v", t, dst)
			flat = flat && (r*w == 1 || r == rows && w == width && t.Contiguous())
		}
	}
	if rows == 0 || width == 0 {
		return
	}
	if flat {
		rows, width = 1, rows*width
	}
	var in [3]numbers[A]
	out := numbersOf[A](dst, false)
	for i, t := range operands {
		if t != nil {
			in[i] = numbersOf[A](t, t.Width() == 1 && (t.Elems() == 1 || dst.Width() != 1))
		}
	}
	piece := min(pieceElems, width)
	inRow := (width + piece - 1) / piece
	s := b.scratch(b.pool.threads * 4 * piece * dtypeOf[A]().Size())
	defer s.release()
	tmp := elems[A](s, dtypeOf[A]())
	b.rows(rows*inRow, piece, func(lo, hi, thread int) {
		var t [4][]A
		for i := range t {
			t[i] = tmp[(thread*4+i)*piece:][:piece]
		}
		for p := lo; p < hi; p++ {
			r, c := p/inRow, p%inRow*piece
			n := min(piece, width-c)
			o := out.dest(r, c, n, t[0])
			f(o, in[0].load(r, c, n, t[1]), in[1].load(r, c, n, t[2]), in[2].load(r, c, n, t[3]))
			out.store(r, c, o)
		}
	})
}

// arithmetic is tensor.Arithmetic, checked.
func arithmetic(op string, types ...tensor.DType) tensor.DType {
	dt, ok := tensor.Arithmetic(types...)
	check(ok, op, "floats and integers do not mix: %v", types)
	return dt
}
