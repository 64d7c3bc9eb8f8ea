package xla

import "trireme/tensor"

// MatMul multiplies 16-bit operands of one type as they are; the sum is in float32. Others are
// multiplied in float32, except that accelerators round the float32 operand of a 16-bit one, such as
// the gradient of logits, to its type, as PyTorch's autocast does: float32 products run at a fraction
// of the speed.
func (e *emitter) MatMul(dst, a, b *tensor.Tensor, op tensor.MatMulOp) {
	if parts := e.wideColumns(a); parts != nil && !op.Accumulate && len(b.Shape()) == 2 {
		e.matMulColumns(dst, parts, b, op)
		return
	}
	x, y := e.factors(e.load(a), e.load(b))
	batch := len(x.dims) - 2
	xc, yc := contracted(op, batch)
	if op.Accumulate {
		z := e.aligned(x, y, xc, yc, batch, "f32")
		e.store(dst, e.binary("add", e.convert(e.reshape(e.load(dst), z.dims...), "f32"), z))
		return
	}
	e.store(dst, e.aligned(x, y, xc, yc, batch, sumType(x, dst)))
}

// sumType is the type of a product of x that is stored in dst.
func sumType(x value, dst *tensor.Tensor) elem {
	if x.elem == elems[dst.DType()] {
		return x.elem
	}
	return "f32"
}

// aligned is dot. Where rows of a 16-bit matrix or of the result are not aligned, as with a vocabulary of 50257,
// it multiplies matrices with more rows or columns of 0: the tensor cores of GPUs load and store aligned rows.
func (e *emitter) aligned(x, y value, xc, yc, batch int, to elem) value {
	if e.target.align == 0 || batch > 0 || x.elem == "f32" {
		return e.dot(x, y, xc, yc, batch, to)
	}
	k, m, n := x.dims[xc], x.dims[1-xc], y.dims[1-yc]
	more := func(n int) int {
		unit := 8 * e.target.align
		if n%e.target.align == 0 || n <= unit {
			return n
		}
		return (n + unit - 1) / unit * unit
	}
	k2, m2, n2 := k, m, more(n)
	if xc == 1 || yc == 1 {
		k2 = more(k)
	}
	if xc == 0 {
		m2 = more(m)
	}
	if k2 == k && m2 == m && n2 == n {
		return e.dot(x, y, xc, yc, 0, to)
	}
	wide := func(v value, c, k, free int) value {
		after := make([]int, 2)
		after[c], after[1-c] = k-v.dims[c], free-v.dims[1-c]
		return e.pad(v, []int{0, 0}, after)
	}
	z := e.dot(wide(x, xc, k2, m2), wide(y, yc, k2, n2), xc, yc, 0, to)
	return e.slice(z, []int{0, 0}, []int{m, n})
}

// factors are the operands of a product in the type in which they are multiplied.
func (e *emitter) factors(x, y value) (value, value) {
	switch {
	case x.elem == y.elem:
	case e.target.platform != "cpu" && x.elem == "f32":
		x = e.convert(x, y.elem)
	case e.target.platform != "cpu" && y.elem == "f32":
		y = e.convert(y, x.elem)
	default:
		x, y = e.convert(x, "f32"), e.convert(y, "f32")
	}
	return x, y
}

// contracted are the contracted dimensions of both operands.
func contracted(op tensor.MatMulOp, batch int) (x, y int) {
	x, y = batch+1, batch
	if op.TransA {
		x = batch
	}
	if op.TransB {
		y = batch + 1
	}
	return x, y
}

// wideColumns are the wide matrices side by side that t was written as, such as the gradients of a gate and
// of what it multiplies; nil if it was written otherwise.
func (e *emitter) wideColumns(t *tensor.Tensor) []value {
	if e.target.columns == 0 || len(t.Shape()) != 2 {
		return nil
	}
	r, c := regionOf(t), e.contents(t)
	for _, x := range c.entries {
		if x.overlaps(r) && (x.width < e.target.columns || !r.contains(x.region)) {
			return nil
		}
	}
	parts, ok := e.parts(c, r)
	if !ok || len(parts) < 2 {
		return nil
	}
	vs, ok := e.columns(parts, r)
	if !ok || vs[0].dims[0] != t.Rows() {
		return nil
	}
	return vs
}

// matMulColumns is MatMul of a matrix that is not joined in memory: parts of its columns are rows of the
// result if it is transposed, and terms of a sum otherwise.
func (e *emitter) matMulColumns(dst *tensor.Tensor, parts []value, b *tensor.Tensor, op tensor.MatMulOp) {
	xc, yc := contracted(op, 0)
	all := e.load(b)
	var sum value
	at := 0
	for _, part := range parts {
		from, n := at, part.dims[1]
		at += n
		if op.TransA {
			x, y := e.factors(part, all)
			e.store(dst.RowRange(from, at), e.aligned(x, y, xc, yc, 0, sumType(x, dst)))
			continue
		}
		lo, hi := []int{0, 0}, []int{all.dims[0], all.dims[1]}
		lo[yc], hi[yc] = from, at
		x, y := e.factors(part, e.slice(all, lo, hi))
		z := e.aligned(x, y, xc, yc, 0, "f32")
		if from > 0 {
			z = e.binary("add", sum, z)
		}
		sum = z
	}
	if !op.TransA {
		e.store(dst, sum)
	}
}
