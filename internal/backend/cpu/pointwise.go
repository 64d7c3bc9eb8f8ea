package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

func (b *Backend) Add(dst, x, y *tensor.Tensor) {
	rows, width := sameShape("add", dst, x, y)
	b.each(rows, width, eachOperands{o: floats("add", dst), x: floats("add", x), y: floats("add", y)},
		func(o, _, x, y, _ []float32) { kernel.Add(o, x, y) })
}

func (b *Backend) AddScaled(dst, src *tensor.Tensor, s float64) {
	rows, width := sameShape("add scaled", dst, src)
	d := floats("add scaled", dst)
	b.each(rows, width, eachOperands{o: d, x: d, y: floats("add scaled", src)},
		func(o, _, x, y, _ []float32) { kernel.AddScaled(o, x, y, float32(s)) })
}

func (b *Backend) ScaleBy(dst, x, factor *tensor.Tensor) {
	const op = "scale by"
	rows, width := sameShape(op, dst, x)
	check(factor.DType() == tensor.F64 && factor.Elems() == 1, op, "the factor %v", factor)
	by := float32(tensor.Host[float64](factor)[0])
	b.each(rows, width, eachOperands{o: floats(op, dst), x: floats(op, x)}, func(o, _, x, _, _ []float32) {
		for i, v := range x {
			o[i] = v * by
		}
	})
}

func (b *Backend) SwiGLU(dst, gate, up *tensor.Tensor) {
	rows, width := sameShape("swiglu", dst, gate, up)
	b.each(rows, width, eachOperands{o: floats("swiglu", dst), x: floats("swiglu", gate), y: floats("swiglu", up)},
		func(o, _, x, y, _ []float32) { kernel.SwiGLU(o, x, y) })
}

func (b *Backend) SwiGLUBackward(dgate, dup, dy, gate, up *tensor.Tensor) {
	const op = "swiglu backward"
	rows, width := sameShape(op, dgate, dup, dy, gate, up)
	b.each(rows, width, eachOperands{
		o: floats(op, dgate), o2: floats(op, dup),
		x: floats(op, dy), y: floats(op, gate), z: floats(op, up),
	}, kernel.SwiGLUBackward)
}

func (b *Backend) GELU(dst, x *tensor.Tensor, tanh bool) {
	rows, width := sameShape("gelu", dst, x)
	b.each(rows, width, eachOperands{o: floats("gelu", dst), x: floats("gelu", x)},
		func(o, _, x, _, _ []float32) {
			if tanh {
				kernel.GELUTanh(o, x)
			} else {
				kernel.GELUErf(o, x)
			}
		})
}

func (b *Backend) GELUBackward(dx, dy, x *tensor.Tensor, tanh bool) {
	const op = "gelu backward"
	rows, width := sameShape(op, dx, dy, x)
	b.each(rows, width, eachOperands{o: floats(op, dx), x: floats(op, dy), y: floats(op, x)},
		func(o, _, dy, x, _ []float32) {
			if tanh {
				kernel.GELUTanhBackward(o, dy, x)
			} else {
				kernel.GELUErfBackward(o, dy, x)
			}
		})
}

func (b *Backend) Tanh(dst, x *tensor.Tensor) {
	rows, width := sameShape("tanh", dst, x)
	b.each(rows, width, eachOperands{o: floats("tanh", dst), x: floats("tanh", x)},
		func(o, _, x, _, _ []float32) { kernel.Tanh(o, x) })
}

func (b *Backend) TanhBackward(dx, dy, y *tensor.Tensor) {
	const op = "tanh backward"
	rows, width := sameShape(op, dx, dy, y)
	b.each(rows, width, eachOperands{o: floats(op, dx), x: floats(op, dy), y: floats(op, y)},
		func(o, _, dy, y, _ []float32) { kernel.TanhBackward(o, dy, y) })
}

func (b *Backend) Rope(dst, x, cos, sin, positions *tensor.Tensor, headDim int, inverse bool) {
	const op = "rope"
	rows, width := sameShape(op, dst, x)
	check(headDim > 0 && headDim%2 == 0 && width%headDim == 0, op, "heads of %d in %v", headDim, x)
	half := headDim / 2
	for _, t := range []*tensor.Tensor{cos, sin} {
		check(t.Contiguous() && t.Width() == half && t.Rows() == cos.Rows(), op, "table %v for heads of %d", t, headDim)
	}
	c, s, count := floats(op, cos), floats(op, sin), cos.Rows()
	at := indices(op, positions, rows)
	for n, p := range at {
		if p < 0 || int(p) >= count {
			check(false, op, "position %d of row %d is outside the table %v", p, n, cos)
		}
	}
	o, in := floats(op, dst), floats(op, x)
	w := b.rowScratch(width, &o, &in, &c, &s)
	defer w.release()
	b.rows(rows, width, func(lo, hi, thread int) {
		for n := lo; n < hi; n++ {
			p := int(at[n])
			y := o.dest(n*o.ld, width, w.row(thread, 0))
			kernel.Rope(y, in.load(n*in.ld, width, w.row(thread, 1)), c.load(p*half, half, w.row(thread, 2)), s.load(p*half, half, w.row(thread, 3)), headDim, inverse)
			o.store(n*o.ld, y)
		}
	})
}
