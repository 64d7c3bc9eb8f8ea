package xla

import "trireme/tensor"

// Rope gathers the angles of a row once and broadcasts them over its heads. See tensor/compose for the
// formula.
func (e *emitter) Rope(dst, x, cos, sin, positions *tensor.Tensor, headDim int, inverse bool) {
	rows, heads, half := x.Rows(), x.Width()/headDim, headDim/2
	if rows == 0 {
		return
	}
	ids := e.flat(e.load(positions))
	dims := []int{rows, heads, half}
	angle := func(table *tensor.Tensor) value {
		return e.broadcast(e.convert(e.rows(e.asMatrix(table), ids), "f32"), []int{0, 2}, dims...)
	}
	in := e.reshape(e.convert(e.load(x), "f32"), rows, heads, headDim)
	a := e.slice(in, []int{0, 0, 0}, dims)
	b := e.slice(in, []int{0, 0, half}, []int{rows, heads, headDim})
	c, s := angle(cos), angle(sin)
	if inverse {
		s = e.op("negate", "", "f32", dims, s)
	}
	mul := func(x, y value) value { return e.binary("multiply", x, y) }
	e.store(dst, e.concat(2, e.binary("subtract", mul(a, c), mul(b, s)), e.binary("add", mul(b, c), mul(a, s))))
}
