package autograd

import "trireme/tensor"

// RopeTable has what Rope reads. Cosines and sines stay, positions belong to a batch.
type RopeTable struct {
	Cos, Sin  *tensor.Tensor // [P E/2]
	Positions *tensor.Tensor // I32 [N]: the position of each row in its document
}

// Rope applies rotary position embedding (Su et al. 2021) to the first width columns of x, in heads
// of size headDim. It works in place, so x must not be saved for backward.
func (t *Tape) Rope(x *Var, width, headDim int, r RopeTable) *Var {
	if r.Positions == nil {
		panic("autograd: rope without positions. try: RopeTable.Positions = model.Batch.Positions")
	}
	y := t.moveInto(x)
	if y.kept == nil || !y.kept.rotated {
		t.rotate(y.Value, width, headDim, r, false)
	}
	if y.kept != nil {
		y.kept.rotated = true
	}
	if x.recompute != nil {
		y.source, y.recompute = x.source, func() *tensor.Tensor {
			z := x.recompute()
			t.rotate(z, width, headDim, r, false)
			return z
		}
	}
	t.record(y, nil, func(dy *gradient) {
		dx := t.own(dy)
		t.rotate(dx.t, width, headDim, r, true)
		t.accumulate(x, dx)
	})
	return y
}

func (t *Tape) rotate(x *tensor.Tensor, width, headDim int, r RopeTable, inverse bool) {
	c := x.Cols(0, width)
	t.b.Rope(c, c, r.Cos, r.Sin, r.Positions, headDim, inverse)
}

// moveInto moves x's tensor into a new value.
func (t *Tape) moveInto(x *Var) *Var {
	if x.saved > 0 {
		panic("autograd: in-place operation on a value saved for backward")
	}
	y := t.newVar(t.value(x), x)
	x.Value = nil
	if y.kept = x.kept; y.kept != nil && len(y.kept.of) > 0 {
		y.kept.of[0] = y
	}
	return y
}

// Attention is scaled dot-product attention of qkv [N (H+2K)*E], queries, keys and values in
// columns. The result is [N H*E]. docs (I32 [N] or nil) masks other documents.
func (t *Tape) Attention(qkv *Var, docs *tensor.Tensor, p tensor.AttentionParams) *Var {
	in := t.value(qkv)
	mustShape("attention", in.Width() == (p.Heads+2*p.KVHeads)*p.E, in)
	return t.attention(docs, p, qkv)
}

// CrossAttention is Attention of queries q [N H*E] and keys and values kv [N 2K*E].
func (t *Tape) CrossAttention(q, kv *Var, docs *tensor.Tensor, p tensor.AttentionParams) *Var {
	x, y := t.value(q), t.value(kv)
	mustShape("attention", x.Width() == p.Heads*p.E && y.Rows() == x.Rows() && y.Width() == 2*p.KVHeads*p.E, x, y)
	return t.attention(docs, p, q, kv)
}

// attention takes qkv in one value or q and kv in two.
func (t *Tape) attention(docs *tensor.Tensor, p tensor.AttentionParams, ins ...*Var) *Var {
	if p.Starts == nil {
		panic("autograd: attention without the bounds of sequences. try: model.Batch.Attention, which sets AttentionParams.Starts")
	}
	o, lse := t.newVar(nil, ins...), &Var{}
	t.adopt(lse)
	split := func(of func(i int) *tensor.Tensor) (q, k, v *tensor.Tensor) {
		first, last := of(0), of(len(ins)-1)
		at, e := last.Width()-2*p.KVHeads*p.E, p.KVHeads*p.E
		return first.Cols(0, p.Heads*p.E), last.Cols(at, at+e), last.Cols(at+e, at+2*e)
	}
	value := func(i int) *tensor.Tensor { return t.value(ins[i]) }
	if !t.takeSaved(SaveAttention, o, lse) {
		o.Value = t.alloc(value(0).Rows(), p.Heads*p.E)
		lse.Value = t.b.New(tensor.Activations, t.sums(), p.Heads, o.Value.Rows())
		q, k, v := split(value)
		t.b.Attention(o.Value, lse.Value, q, k, v, docs, p)
	}
	t.record(o, append([]*Var{o, lse}, ins...), func(do *gradient) {
		ds := make([]*gradient, len(ins))
		for i := range ins {
			ds[i] = &gradient{t.alloc(value(i).Shape()...), 1}
		}
		q, k, v := split(value)
		dq, dk, dv := split(func(i int) *tensor.Tensor { return ds[i].t })
		t.b.AttentionBackward(dq, dk, dv, do.t, t.value(o), lse.Value, q, k, v, docs, p)
		t.release(do)
		for i, x := range ins {
			t.accumulate(x, ds[i])
		}
	})
	return o
}

// AttentionDecode is attention of the queries of position at[0] (I32 [1]), the first H*E columns of
// q [1 ...], over the keys and values kv [P 2K*E] of positions up to it. kv in 8 bits has scales [P 2K]; else they are nil.
// It has no backward.
func (t *Tape) AttentionDecode(q *Var, kv, scales, at *tensor.Tensor, p tensor.AttentionParams) *Var {
	in := t.value(q)
	mustShape("attention of one row", !t.grad && in.Rows() == 1 && kv.Width() == 2*p.KVHeads*p.E, in, kv)
	o := t.newVar(t.alloc(1, p.Heads*p.E))
	if scales != nil {
		t.b.AttentionDecodeQuantized(o.Value, in.Cols(0, p.Heads*p.E), kv, scales, at, p)
		return o
	}
	t.b.AttentionDecode(o.Value, in.Cols(0, p.Heads*p.E), kv.Cols(0, p.KVHeads*p.E), kv.Cols(p.KVHeads*p.E, 2*p.KVHeads*p.E), at, p)
	return o
}
