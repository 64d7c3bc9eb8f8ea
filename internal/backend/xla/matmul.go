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
		z := e.convert(e.dot(x, y, xc, yc, batch, "f32"), "f32")
		e.store(dst, e.binary("add", e.convert(e.reshape(e.load(dst), z.dims...), "f32"), z))
		return
	}
	to := elem("f32")
	if x.elem == elems[dst.DType()] {
		to = x.elem
	}
	e.store(dst, e.dot(x, y, xc, yc, batch, to))
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
			to := elem("f32")
			if x.elem == elems[dst.DType()] {
				to = x.elem
			}
			e.store(dst.RowRange(from, at), e.dot(x, y, xc, yc, 0, to))
			continue
		}
		lo, hi := []int{0, 0}, []int{all.dims[0], all.dims[1]}
		lo[yc], hi[yc] = from, at
		x, y := e.factors(part, e.slice(all, lo, hi))
		z := e.convert(e.dot(x, y, xc, yc, 0, "f32"), "f32")
		if from > 0 {
			z = e.binary("add", sum, z)
		}
		sum = z
	}
	if !op.TransA {
		e.store(dst, sum)
	}
}
