package autograd

import "trireme/tensor"

// RopeTable is what rotary position embedding reads: cosines and sines [P E/2], and where a
// row's position is not its number modulo Period, Positions (I32 [N]).
type RopeTable struct {
	Cos, Sin  *tensor.Tensor
	Positions *tensor.Tensor
	Period    int
}

// Rope rotates the first width columns of x, heads of size headDim, by their positions (Su et
// al. 2021). It takes x's memory: nobody may have saved x.
func (t *Tape) Rope(x *Var, width, headDim int, r RopeTable) *Var {
	y := t.takeOver(x)
	t.rotate(y.Value, width, headDim, r, false)
	t.record(y, nil, func(dy *gradient) {
		dx := t.own(dy)
		t.rotate(dx.t, width, headDim, r, true)
		t.give(x, dx)
	})
	return y
}

func (t *Tape) rotate(x *tensor.Tensor, width, headDim int, r RopeTable, inverse bool) {
	c := x.Cols(0, width)
	t.b.Rope(c, c, r.Cos, r.Sin, r.Positions, r.Period, headDim, inverse)
}

// takeOver moves x's tensor into a new value.
func (t *Tape) takeOver(x *Var) *Var {
	if x.saved > 0 {
		panic("autograd: a value that was saved cannot be changed in place")
	}
	y := t.newVar(t.value(x), x)
	x.Value = nil
	return y
}

// Attention is scaled dot-product attention. qkv [N (H+2K)*E] holds queries, keys and values
// side by side; the result is [N H*E]. docs (I32 [N] or nil) keeps documents apart.
func (t *Tape) Attention(qkv *Var, docs *tensor.Tensor, p tensor.AttentionParams) *Var {
	in := t.value(qkv)
	mustShape("attention", in.Rows() == p.Batch*p.T && in.Width() == (p.Heads+2*p.KVHeads)*p.E, in)
	o := t.newVar(t.alloc(in.Rows(), p.Heads*p.E), qkv)
	lse := &Var{Value: t.b.New(tensor.Activations, t.sums(), p.Batch, p.Heads, p.T)}
	t.adopt(lse)
	q, k, v := splitQKV(in, p)
	t.b.Attention(o.Value, lse.Value, q, k, v, docs, p)
	t.record(o, []*Var{qkv, o, lse}, func(do *gradient) {
		in := t.value(qkv)
		d := &gradient{t.alloc(in.Shape()...), 1}
		q, k, v := splitQKV(in, p)
		dq, dk, dv := splitQKV(d.t, p)
		t.b.AttentionBackward(dq, dk, dv, do.t, t.value(o), lse.Value, q, k, v, docs, p)
		t.release(do)
		t.give(qkv, d)
	})
	return o
}

func splitQKV(x *tensor.Tensor, p tensor.AttentionParams) (q, k, v *tensor.Tensor) {
	a, b := p.Heads*p.E, (p.Heads+p.KVHeads)*p.E
	return x.Cols(0, a), x.Cols(a, b), x.Cols(b, b+p.KVHeads*p.E)
}
