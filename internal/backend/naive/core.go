package naive

import (
	"math"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// isInteger reports whether a tensor holds integers. They are computed in int64, since float64 does
// not represent them all.
func isInteger(t *tensor.Tensor) bool {
	return t.DType() == tensor.I32 || t.DType() == tensor.I64 || t.DType() == tensor.U8
}

// geti and seti are get and set for integers.
func geti(t *tensor.Tensor, i, j int) int64 {
	if t.DType() == tensor.I64 {
		return tensor.Host[int64](t)[i*t.RowStride()+j]
	}
	return int64(get(t, i, j))
}

func seti(t *tensor.Tensor, i, j int, v int64) {
	k := i*t.RowStride() + j
	switch t.DType() {
	case tensor.I64:
		tensor.Host[int64](t)[k] = v
	case tensor.I32:
		tensor.Host[int32](t)[k] = int32(v)
	case tensor.U8:
		tensor.Host[uint8](t)[k] = uint8(v)
	default:
		set(t, i, j, float64(v))
	}
}

// broadcast is the index in t of element (i, j), for a t with one row or one column.
func broadcast(t *tensor.Tensor, i, j int) (int, int) {
	return min(i, t.Rows()-1), min(j, t.Width()-1)
}

// each calls f for every element of dst.
func each(dst *tensor.Tensor, f func(i, j int)) {
	for i := range dst.Rows() {
		for j := range dst.Width() {
			f(i, j)
		}
	}
}

func (b *Backend) Copy(dst, src *tensor.Tensor) {
	if dst.Rows() != src.Rows() {
		dst, src = dst.Flat(0, dst.Elems()), src.Flat(0, src.Elems())
	}
	each(dst, func(i, j int) {
		switch {
		case isInteger(src):
			seti(dst, i, j, geti(src, i, j))
		case isInteger(dst):
			seti(dst, i, j, int64(get(src, i, j)))
		default:
			set(dst, i, j, get(src, i, j))
		}
	})
}

func (b *Backend) Swap(dst, x *tensor.Tensor) {
	s := x.Shape()
	d := s[3]
	to, from := dst.Flat(0, dst.Elems()), x.Flat(0, x.Elems())
	each(from, func(_, i int) {
		a, r, c := i/(s[1]*s[2]*d), i/(s[2]*d)%s[1], i/d%s[2]
		k := ((a*s[2]+c)*s[1]+r)*d + i%d
		if isInteger(x) {
			seti(to, 0, k, geti(from, 0, i))
		} else {
			set(to, 0, k, get(from, 0, i))
		}
	})
}

func (b *Backend) Iota(dst *tensor.Tensor, dim int) {
	each(dst, func(i, j int) { seti(dst, i, j, int64([2]int{i, j}[dim])) })
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

var functions = [...]func(float64) float64{
	tensor.Abs: math.Abs, tensor.Exp: math.Exp, tensor.Log: math.Log, tensor.Log1p: math.Log1p, tensor.Sqrt: math.Sqrt,
	tensor.Tanh: math.Tanh, tensor.Erf: math.Erf, tensor.Logistic: sigmoid, tensor.Sin: math.Sin, tensor.Cos: math.Cos, tensor.Floor: math.Floor,
}

func (b *Backend) Unary(dst, x *tensor.Tensor, op tensor.UnaryOp) {
	each(dst, func(i, j int) {
		r, c := broadcast(x, i, j)
		set(dst, i, j, functions[op](get(x, r, c)))
	})
}

func (b *Backend) Binary(dst, x, y *tensor.Tensor, op tensor.BinaryOp) {
	each(dst, func(i, j int) {
		xi, xj := broadcast(x, i, j)
		yi, yj := broadcast(y, i, j)
		if !isInteger(x) {
			set(dst, i, j, arithmetic(get(x, xi, xj), get(y, yi, yj), op))
			return
		}
		u, v := geti(x, xi, xj), geti(y, yi, yj)
		switch op {
		case tensor.Rem:
			u %= v
		case tensor.And:
			u &= v
		case tensor.Or:
			u |= v
		case tensor.Xor:
			u ^= v
		case tensor.Shl:
			u <<= uint(v)
		case tensor.Shr:
			u >>= uint(v)
		case tensor.Ushr:
			if dst.DType() == tensor.I64 {
				u = int64(uint64(u) >> uint(v))
			} else {
				u = int64(uint32(u) >> uint(v))
			}
		default:
			u = arithmetic(u, v, op)
		}
		seti(dst, i, j, u)
	})
}

// arithmetic has the operations of floats and integers.
func arithmetic[A float64 | int64](u, v A, op tensor.BinaryOp) A {
	is := false
	switch op {
	case tensor.Add:
		return u + v
	case tensor.Sub:
		return u - v
	case tensor.Mul:
		return u * v
	case tensor.Div:
		return u / v
	case tensor.Max:
		return max(u, v)
	case tensor.Min:
		return min(u, v)
	case tensor.Eq:
		is = u == v
	case tensor.Ne:
		is = u != v
	case tensor.Lt:
		is = u < v
	case tensor.Le:
		is = u <= v
	case tensor.Gt:
		is = u > v
	case tensor.Ge:
		is = u >= v
	}
	if is {
		return 1
	}
	return 0
}

func (b *Backend) Select(dst, cond, x, y *tensor.Tensor) {
	each(dst, func(i, j int) {
		r, c := broadcast(cond, i, j)
		t := y
		if get(cond, r, c) != 0 {
			t = x
		}
		if r, c = broadcast(t, i, j); isInteger(t) {
			seti(dst, i, j, geti(t, r, c))
		} else {
			set(dst, i, j, get(t, r, c))
		}
	})
}

func (b *Backend) Reduce(dst, x *tensor.Tensor, dim int, op tensor.BinaryOp, acc tensor.DType) {
	n, along := x.Rows(), x.Width()
	if dim == 0 {
		n, along = along, n
	}
	dst = dst.Flat(0, n)
	for i := range n {
		sum, isum := 0.0, int64(0)
		for k := range along {
			r, c := i, k
			if dim == 0 {
				r, c = k, i
			}
			switch {
			case isInteger(x) && k == 0:
				isum = geti(x, r, c)
			case isInteger(x):
				isum = arithmetic(isum, geti(x, r, c), op)
			case k == 0:
				sum = get(x, r, c)
			default:
				sum = arithmetic(sum, get(x, r, c), op)
			}
		}
		if isInteger(x) {
			seti(dst, 0, i, isum)
		} else {
			set(dst, 0, i, sum)
		}
	}
}

func (b *Backend) GatherRows(dst, table, ids *tensor.Tensor) {
	each(dst, func(i, j int) { set(dst, i, j, get(table, int(get(ids, 0, i)), j)) })
}

func (b *Backend) WriteRows(dst, x, at *tensor.Tensor) {
	first := int(geti(at, 0, 0))
	b.Copy(dst.RowRange(first, first+x.Rows()), x)
}

func (b *Backend) ScatterAdd(dst, x, ids *tensor.Tensor, padding int, accumulate bool) {
	w := dst.Width()
	out := make([]float64, dst.Elems())
	each(x, func(i, j int) {
		if id := int(get(ids, 0, i)); id != padding {
			out[id*w+j] += get(x, i, j)
		}
	})
	write(dst, out, accumulate)
}

func (b *Backend) Words(dst, at *tensor.Tensor, key tensor.RandKey) {
	each(dst, func(i, j int) { seti(dst, i, j, int64(word(key, uint64(geti(at, i, j))))) })
}

// word is element e of the key's stream.
func word(key tensor.RandKey, e uint64) uint32 {
	k := e / 4
	words := kernel.Philox(
		[4]uint32{uint32(k), uint32(k >> 32), uint32(key.Stream), uint32(key.Stream >> 32)},
		[2]uint32{uint32(key.Seed), uint32(key.Seed >> 32)})
	return words[e%4]
}
