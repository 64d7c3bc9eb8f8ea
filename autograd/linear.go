package autograd

import "trireme/tensor"

// Linear is y [N O] = x [N D] * w^T + bias, where w [O D] is the concatenation of ws. Weights that
// are adjacent in memory are multiplied at once. biases is empty or has one [O_i] per weight.
func (t *Tape) Linear(x *Var, ws, biases []*Var) *Var {
	y := t.product(func() *tensor.Tensor {
		in := t.value(x)
		for _, w := range ws {
			mustShape("linear", in.Width() == w.Value.Width(), in, w.Value)
		}
		z := t.alloc(in.Rows(), rows(ws))
		t.project(z, in, ws)
		if len(biases) > 0 {
			forParts(biases, values(biases), nil, func(b *tensor.Tensor, lo, hi int, _ bool) {
				t.b.AddBias(z.Cols(lo, hi), z.Cols(lo, hi), b)
			})
		}
		return z
	}, append(append([]*Var{x}, ws...), biases...)...)
	t.record(y, []*Var{x}, func(dy *gradient) {
		t.weightGrads(t.value(x), dy.t, ws, biases)
		x.lastRead()
		if x.requiresGrad {
			t.inputGrad(x, dy.t, ws)
		}
		t.release(dy)
	})
	return y
}

// project is z = x * w^T, where w is the concatenation of ws.
func (t *Tape) project(z, x *tensor.Tensor, ws []*Var) {
	if ws[0].Scales == nil {
		forParts(ws, values(ws), nil, func(w *tensor.Tensor, lo, hi int, _ bool) {
			t.b.MatMul(z.Cols(lo, hi), x, w, tensor.MatMulOp{TransB: true, Highest: t.highest})
		})
		return
	}
	lo := 0
	for _, w := range ws {
		hi := lo + w.Value.Dim(0)
		w.Project(t.b, z.Cols(lo, hi), x)
		lo = hi
	}
}

// Project is dst [N O] = x [N D] * v^T for a weight v [O D], outside of any tape. It is for
// few rows: float32 is multiplied as float32 on every backend.
func (v *Var) Project(b tensor.Backend, dst, x *tensor.Tensor) {
	if v.Scales != nil {
		b.MatMulQuantized(dst, x, v.Value, v.Scales)
		return
	}
	b.MatMul(dst, x, v.Value, tensor.MatMulOp{TransB: true, Highest: true})
}

// LinearT is y [N O] = x [N D] * w + bias with w [D O], as in GPT-2. bias may be nil.
func (t *Tape) LinearT(x, w, bias *Var) *Var {
	y := t.product(func() *tensor.Tensor {
		in := t.value(x)
		mustShape("linear by a transposed weight", in.Width() == w.Value.Dim(0), in, w.Value)
		z := t.alloc(in.Rows(), w.Value.Dim(1))
		t.b.MatMul(z, in, w.Value, tensor.MatMulOp{Highest: t.highest})
		if bias != nil {
			t.b.AddBias(z, z, bias.Value)
		}
		return z
	}, x, w, bias)
	t.record(y, []*Var{x}, func(dy *gradient) {
		if dw, add := gradDst(w); dw != nil {
			t.b.MatMul(dw, t.value(x), dy.t, tensor.MatMulOp{TransA: true, Accumulate: add})
		}
		if db, add := gradDst(bias); db != nil {
			t.b.BiasGrad(db, dy.t, add)
		}
		x.lastRead()
		if x.requiresGrad {
			dx, add := t.gradBuffer(x, dy.t.Rows(), w.Value.Dim(0))
			t.b.MatMul(dx, dy.t, w.Value, tensor.MatMulOp{TransB: true, Accumulate: add})
		}
		t.release(dy)
	})
	return y
}

// weightGrads writes dw = dy^T x and dbias = column sums of dy.
func (t *Tape) weightGrads(x, dy *tensor.Tensor, ws, biases []*Var) {
	dws, acc := gradDsts(ws)
	forParts(ws, dws, acc, func(dw *tensor.Tensor, lo, hi int, add bool) {
		t.b.MatMul(dw, dy.Cols(lo, hi), x, tensor.MatMulOp{TransA: true, Accumulate: add})
	})
	dbs, acc := gradDsts(biases)
	forParts(biases, dbs, acc, func(db *tensor.Tensor, lo, hi int, add bool) {
		t.b.BiasGrad(db, dy.Cols(lo, hi), add)
	})
}

// inputGrad adds dx = dy w to x's gradient.
func (t *Tape) inputGrad(x *Var, dy *tensor.Tensor, ws []*Var) {
	dx, add := t.gradBuffer(x, dy.Rows(), ws[0].Value.Width())
	forParts(ws, values(ws), nil, func(w *tensor.Tensor, lo, hi int, _ bool) {
		t.b.MatMul(dx, dy.Cols(lo, hi), w, tensor.MatMulOp{Accumulate: add})
		add = true
	})
}

// gradBuffer returns where to write x's gradient, and whether to add to it.
func (t *Tape) gradBuffer(x *Var, shape ...int) (dx *tensor.Tensor, add bool) {
	if x.grad != nil {
		x.grad = t.own(x.grad)
		return x.grad.t, true
	}
	x.grad = &gradient{t.alloc(shape...), 1}
	return x.grad.t, false
}

// forParts calls f with each tensor and its rows [lo, hi) among all, or once for all if the tensors
// are adjacent. It skips nil tensors.
func forParts(vs []*Var, ts []*tensor.Tensor, acc []bool, f func(t *tensor.Tensor, lo, hi int, add bool)) {
	if whole, add, ok := joined(ts, acc); ok {
		f(whole, 0, whole.Dim(0), add)
		return
	}
	lo := 0
	for i, v := range vs {
		hi := lo + v.Value.Dim(0)
		if ts[i] != nil {
			f(ts[i], lo, hi, acc != nil && acc[i])
		}
		lo = hi
	}
}

func joined(ts []*tensor.Tensor, acc []bool) (whole *tensor.Tensor, add, ok bool) {
	if len(ts) == 0 {
		return nil, false, false
	}
	for i, t := range ts {
		if t == nil || acc != nil && acc[i] != acc[0] {
			return nil, false, false
		}
	}
	whole = tensor.Join(ts...)
	return whole, acc != nil && acc[0], whole != nil
}

func rows(vs []*Var) int {
	n := 0
	for _, v := range vs {
		n += v.Value.Dim(0)
	}
	return n
}

func values(vs []*Var) []*tensor.Tensor {
	ts := make([]*tensor.Tensor, len(vs))
	for i, v := range vs {
		ts[i] = v.Value
	}
	return ts
}

// gradDsts are the gradient destinations of vs, nil where no gradient is required.
func gradDsts(vs []*Var) (dst []*tensor.Tensor, accumulate []bool) {
	dst, accumulate = make([]*tensor.Tensor, len(vs)), make([]bool, len(vs))
	for i, v := range vs {
		if v.requiresGrad {
			dst[i], accumulate[i] = v.GradDst()
		}
	}
	return dst, accumulate
}

// gradDst is the gradient destination of v, nil if no gradient is required.
func gradDst(v *Var) (dst *tensor.Tensor, accumulate bool) {
	if v == nil || !v.requiresGrad {
		return nil, false
	}
	return v.GradDst()
}

// Repeat is n rows of v [D].
func (t *Tape) Repeat(v *Var, n int) *Var {
	y := t.newVar(t.alloc(n, v.Value.Elems()), v)
	t.b.Fill(y.Value, 0)
	t.b.AddBias(y.Value, y.Value, v.Value)
	t.record(y, nil, func(dy *gradient) {
		if dst, acc := gradDst(v); dst != nil {
			t.b.BiasGrad(dst, dy.t, acc)
		}
		t.release(dy)
	})
	return y
}
