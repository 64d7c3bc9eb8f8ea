package autograd

import "trireme/tensor"

// share passes one gradient to several inputs without a copy.
func (t *Tape) share(d *gradient, xs ...*Var) {
	d.refs += len(xs) - 1
	for _, x := range xs {
		t.accumulate(x, d)
	}
}

// Add is x + y, of equal shapes.
func (t *Tape) Add(x, y *Var) *Var {
	z := t.deferred(func() *tensor.Tensor {
		a, b := t.value(x), t.value(y)
		sum := t.alloc(a.Shape()...)
		t.b.Add(sum, a, b)
		return sum
	}, x, y)
	t.record(z, nil, func(d *gradient) { t.share(d, x, y) })
	return z
}

// SwiGLU is silu(gate) * up [N F] for x [N 2F], gate and up in columns (Shazeer 2020). Backward
// recomputes it.
func (t *Tape) SwiGLU(x *Var) *Var {
	in := t.value(x)
	f := in.Width() / 2
	mustShape("swiglu", in.Width() == 2*f, in)
	y := t.recomputed(func() *tensor.Tensor {
		in := t.value(x)
		z := t.alloc(in.Rows(), f)
		t.b.SwiGLU(z, in.Cols(0, f), in.Cols(f, 2*f))
		return z
	}, x)
	t.record(y, []*Var{x}, func(dy *gradient) {
		in := t.value(x)
		dx := t.overwrite(x)
		t.b.SwiGLUBackward(dx.t.Cols(0, f), dx.t.Cols(f, 2*f), dy.t, in.Cols(0, f), in.Cols(f, 2*f))
		t.release(dy)
		t.accumulate(x, dx)
	})
	return y
}

// overwrite returns memory for x's gradient: x's own if only the calling operation still needs x.
func (t *Tape) overwrite(x *Var) *gradient {
	in := t.value(x)
	if !x.owned || x.scoped || x.saved != 1 {
		return &gradient{t.alloc(in.Shape()...), 1}
	}
	x.Value = nil
	return &gradient{in, 1}
}

// GELU is x * Phi(x), exact or with the tanh approximation (Hendrycks and Gimpel 2016).
func (t *Tape) GELU(x *Var, tanh bool) *Var {
	in := t.value(x) // saved for backward
	y := t.recomputed(func() *tensor.Tensor {
		z := t.alloc(in.Shape()...)
		t.b.GELU(z, t.value(x), tanh)
		return z
	}, x)
	t.record(y, []*Var{x}, func(dy *gradient) {
		dx := t.own(dy)
		t.b.GELUBackward(dx.t, dx.t, t.value(x), tanh)
		t.accumulate(x, dx)
	})
	return y
}

// Tanh is tanh(x).
func (t *Tape) Tanh(x *Var) *Var {
	in := t.value(x)
	y := t.newVar(t.alloc(in.Shape()...), x)
	t.b.Tanh(y.Value, in)
	t.record(y, []*Var{y}, func(dy *gradient) {
		dx := t.own(dy)
		t.b.TanhBackward(dx.t, dx.t, t.value(y))
		t.accumulate(x, dx)
	})
	return y
}

// Dropout is x/(1-p), or 0 for dropped elements, by key and row ids from first[0] (I64 [1]) on
// (tensor.Pointwise.Dropout). Backward repeats the mask; nothing is saved. With p 0 it is x.
func (t *Tape) Dropout(x *Var, key tensor.RandKey, first *tensor.Tensor, p float64) *Var {
	if p == 0 {
		return x
	}
	y := t.deferred(func() *tensor.Tensor {
		in := t.value(x)
		z := t.alloc(in.Shape()...)
		t.b.Dropout(z, in, key, first, p)
		return z
	}, x)
	t.record(y, nil, func(dy *gradient) {
		dx := t.own(dy)
		t.b.Dropout(dx.t, dx.t, key, first, p)
		t.accumulate(x, dx)
	})
	return y
}

// SelectRows is y [M D] = rows (I32 [M]) of x [N D], which may repeat. Other rows have gradient 0.
func (t *Tape) SelectRows(x *Var, rows *tensor.Tensor) *Var {
	in := t.value(x)
	n := in.Rows()
	y := t.newVar(t.alloc(rows.Elems(), in.Width()), x)
	t.b.GatherRows(y.Value, in, rows)
	t.record(y, nil, func(dy *gradient) {
		dx, add := t.gradBuffer(x, n, dy.t.Width())
		t.b.ScatterAdd(dx, dy.t, rows, tensor.NoPadding, add)
		t.release(dy)
	})
	return y
}

// Embedding is rows ids (I32 [N]) of table [V D]. Row padding gets no gradient, as with padding_idx
// in PyTorch; tensor.NoPadding is none.
func (t *Tape) Embedding(table *Var, ids *tensor.Tensor, padding int) *Var {
	y := t.newVar(t.alloc(ids.Elems(), table.Value.Width()), table)
	if table.Scales != nil {
		t.b.GatherQuantized(y.Value, table.Value, table.Scales, ids)
	} else {
		t.b.GatherRows(y.Value, table.Value, ids)
	}
	t.record(y, nil, func(dy *gradient) {
		dst, acc := gradDst(table)
		t.b.ScatterAdd(dst, dy.t, ids, padding, acc)
		t.release(dy)
	})
	return y
}

// AddRow is x [N D] + row `row` of table [V D].
func (t *Tape) AddRow(x, table *Var, row int) *Var {
	y := t.newVar(t.alloc(t.value(x).Shape()...), x, table)
	t.b.AddBias(y.Value, t.value(x), table.Value.RowRange(row, row+1).Flat(0, table.Value.Width()))
	t.record(y, nil, func(dy *gradient) {
		if dst, acc := gradDst(table); dst != nil {
			if !acc {
				t.b.Fill(dst, 0)
			}
			t.b.BiasGrad(dst.RowRange(row, row+1).Flat(0, dst.Width()), dy.t, true)
		}
		t.accumulate(x, dy)
	})
	return y
}
