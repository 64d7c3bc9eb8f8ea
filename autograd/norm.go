package autograd

import "trireme/tensor"

// RMSNorm is y = x / sqrt(mean(x^2)+eps) * w over the last dimension (Zhang and Sennrich 2019). It
// saves 1/sqrt(...) only; backward recomputes y.
func (t *Tape) RMSNorm(x, w *Var, eps float64) *Var {
	y, _ := t.rmsNorm(x, nil, w, eps)
	return y
}

// AddRMSNorm is sum = x + res and y = RMSNorm(sum) in one pass.
func (t *Tape) AddRMSNorm(x, res, w *Var, eps float64) (y, sum *Var) {
	return t.rmsNorm(x, res, w, eps)
}

func (t *Tape) rmsNorm(x, res, w *Var, eps float64) (y, sum *Var) {
	in := t.value(x)
	rstd := &Var{Value: t.b.New(tensor.Activations, t.sums(), in.Rows())}
	t.adopt(rstd)
	y = t.newVar(t.alloc(in.Shape()...), x, res, w)
	if res == nil {
		sum = x
		t.b.RMSNorm(y.Value, rstd.Value, nil, in, nil, w.Value, eps)
	} else {
		sum = t.newVar(t.alloc(in.Shape()...), x, res)
		t.b.RMSNorm(y.Value, rstd.Value, sum.Value, in, t.value(res), w.Value, eps)
		// Recorded before y, so its gradient includes that of y.
		t.record(sum, nil, func(d *gradient) { t.share(d, x, res) })
	}
	y.source, y.recompute = sum, func() *tensor.Tensor {
		z := t.alloc(in.Shape()...)
		t.b.RecomputeRMSNorm(z, t.value(sum), rstd.Value, w.Value)
		return z
	}
	t.record(y, []*Var{sum, rstd}, func(dy *gradient) {
		dw, acc := gradDst(w)
		dx, dres := t.normInto(sum, dy)
		t.b.RMSNormBackward(dx, dw, dy.t, dres, t.value(sum), rstd.Value, w.Value, acc)
		t.release(dy)
	})
	return y, sum
}

// LayerNorm is y = (x-mean)/sqrt(var+eps) * w + b over the last dimension (Ba et al. 2016).
func (t *Tape) LayerNorm(x, w, b *Var, eps float64) *Var {
	y, _ := t.layerNorm(x, nil, w, b, eps)
	return y
}

// AddLayerNorm is sum = x + res and y = LayerNorm(sum) in one pass.
func (t *Tape) AddLayerNorm(x, res, w, b *Var, eps float64) (y, sum *Var) {
	return t.layerNorm(x, res, w, b, eps)
}

func (t *Tape) layerNorm(x, res, w, b *Var, eps float64) (y, sum *Var) {
	in := t.value(x)
	mean := &Var{Value: t.b.New(tensor.Activations, t.sums(), in.Rows())}
	rstd := &Var{Value: t.b.New(tensor.Activations, t.sums(), in.Rows())}
	t.adopt(mean)
	t.adopt(rstd)
	y = t.newVar(t.alloc(in.Shape()...), x, res, w, b)
	if res == nil {
		sum = x
		t.b.LayerNorm(y.Value, mean.Value, rstd.Value, nil, in, nil, w.Value, b.Value, eps)
	} else {
		sum = t.newVar(t.alloc(in.Shape()...), x, res)
		t.b.LayerNorm(y.Value, mean.Value, rstd.Value, sum.Value, in, t.value(res), w.Value, b.Value, eps)
		t.record(sum, nil, func(d *gradient) { t.share(d, x, res) })
	}
	y.source, y.recompute = sum, func() *tensor.Tensor {
		z := t.alloc(in.Shape()...)
		t.b.RecomputeLayerNorm(z, t.value(sum), mean.Value, rstd.Value, w.Value, b.Value)
		return z
	}
	t.record(y, []*Var{sum, mean, rstd}, func(dy *gradient) {
		dw, acc := gradDst(w)
		db, _ := gradDst(b)
		dx, dres := t.normInto(sum, dy)
		t.b.LayerNormBackward(dx, dw, db, dy.t, dres, t.value(sum), mean.Value, rstd.Value, w.Value, acc)
		t.release(dy)
	})
	return y, sum
}

// HeadRMSNorm normalizes each query head of qkv [N (heads+2 kvHeads)*headDim] by the gain wq
// [headDim] and each key head by wk, and copies values. If Rope works on the result in place,
// backward recomputes both from qkv.
func (t *Tape) HeadRMSNorm(qkv, wq, wk *Var, heads, kvHeads, headDim int, eps float64) *Var {
	in := t.value(qkv)
	q, k := heads*headDim, (heads+kvHeads)*headDim
	mustShape("rms norm of heads", in.Width() == k+kvHeads*headDim, in, wq.Value, wk.Value)
	stats := func(h int) *Var {
		s := &Var{Value: t.b.New(tensor.Activations, t.sums(), in.Rows(), h)}
		t.adopt(s)
		return s
	}
	sq, sk := stats(heads), stats(kvHeads)
	normed := func() *tensor.Tensor {
		in := t.value(qkv)
		z := t.alloc(in.Shape()...)
		t.b.HeadRMSNorm(z.Cols(0, q), sq.Value, in.Cols(0, q), wq.Value, headDim, eps)
		t.b.HeadRMSNorm(z.Cols(q, k), sk.Value, in.Cols(q, k), wk.Value, headDim, eps)
		t.b.Copy(z.Cols(k, in.Width()), in.Cols(k, in.Width()))
		return z
	}
	y := t.newVar(normed(), qkv, wq, wk)
	y.source, y.recompute = qkv, normed
	t.record(y, []*Var{qkv, sq, sk}, func(dy *gradient) {
		in, d := t.value(qkv), t.own(dy)
		dwq, addq := gradDst(wq)
		dwk, addk := gradDst(wk)
		t.b.HeadRMSNormBackward(d.t.Cols(0, q), dwq, d.t.Cols(0, q), in.Cols(0, q), sq.Value, wq.Value, headDim, addq)
		t.b.HeadRMSNormBackward(d.t.Cols(q, k), dwk, d.t.Cols(q, k), in.Cols(q, k), sk.Value, wk.Value, headDim, addk)
		t.accumulate(qkv, d)
	})
	return y
}

// normInto chooses where a norm writes dx: over x's accumulated gradient, which it adds to, or over
// dy.
func (t *Tape) normInto(x *Var, dy *gradient) (dx, dres *tensor.Tensor) {
	switch {
	case !x.requiresGrad:
		return dy.t, nil
	case x.grad != nil:
		x.grad = t.own(x.grad)
		return x.grad.t, x.grad.t
	case dy.refs == 1:
		dy.refs++
		x.grad = dy
		return dy.t, nil
	default:
		x.grad = &gradient{t.alloc(dy.t.Shape()...), 1}
		return x.grad.t, nil
	}
}
