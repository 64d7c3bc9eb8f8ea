package cudnn

import (
	"trireme/tensor"
	"trireme/tensor/compose"
)

// Core is a core that can call cuDNN.
type Core interface {
	tensor.Core
	// Call adds a custom call. results are all but the workspace. Tensors are contiguous and have the
	// bytes of their types: [B H T E] with layout {3,1,2,0} is a tensor of B*T rows of H*E.
	Call(c Call, results, operands []*tensor.Tensor)
}

// Ops are tensor.Attention's operations, by calls of cuDNN where it has them.
type Ops struct {
	core          Core
	device        Device
	deterministic bool
}

// NewOps returns operations for a device. See Attention for deterministic.
func NewOps(c Core, d Device, deterministic bool) Ops { return Ops{c, d, deterministic} }

// Attention is that of tensor.Attention, or does nothing and reports why cuDNN does not have it.
func (x Ops) Attention(o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) (ok bool, why string) {
	r, ok, why := x.rows(q, k, v, docs, p)
	if !ok {
		return false, why
	}
	defer r.Release()
	c := Forward(r.a, x.device)
	out, stats := r.calledRows(o.Width()), r.New(tensor.F32, c.Results[1].Shape...)
	x.core.Call(c, []*tensor.Tensor{out, stats}, append(r.called(q, k, v), r.bounds()...))
	r.Put(o, r.ours(out), false)
	r.Put(lse, r.lse(stats), false)
	return true, ""
}

// AttentionBackward is that of tensor.Attention, or does nothing and reports why cuDNN does not have
// it.
func (x Ops) AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) (ok bool, why string) {
	r, ok, why := x.rows(q, k, v, docs, p)
	if !ok {
		return false, why
	}
	defer r.Release()
	x.core.Barrier(q, k, v, do) // a compiler must copy them again, not keep the copies of forward
	in := append(r.called(q, k, v), r.statistics(lse))
	in = append(append(in, r.called(do, o)...), r.bounds()...)
	out := []*tensor.Tensor{r.calledRows(dq.Width()), r.calledRows(dk.Width()), r.calledRows(dv.Width())}
	x.core.Call(Backward(r.a, x.device), out, in)
	for i, dst := range []*tensor.Tensor{dq, dk, dv} {
		r.Put(dst, r.ours(out[i]), false)
	}
	return true, ""
}

// rows arranges N rows in S = B*M segments of up to T rows.
type rows struct {
	*compose.Scope
	core   tensor.Core
	a      Attention
	s      Shape
	n, all int // N, S*T

	// Unless Full:
	some *tensor.Tensor // [N 1]: whether a row is in a sequence
	slot *tensor.Tensor // [N]: segment*T + position of a row
	row  *tensor.Tensor // [S*T]: the row of a segment's position; any row after its end
}

func (x Ops) rows(q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) (r *rows, ok bool, why string) {
	a := Attention{
		AttentionParams: p, DType: q.DType(), Rows: q.Rows(), Sequences: p.Starts.Elems() - 1,
		Docs: docs != nil, Statistics: true, Deterministic: x.deterministic,
	}
	if k.DType() != a.DType || v.DType() != a.DType {
		return nil, false, "queries, keys and values have different types"
	}
	if ok, why := Supported(a, x.device); !ok {
		return nil, false, why
	}
	s := a.Shape(x.device)
	r = &rows{Scope: compose.NewScope(x.core), core: x.core, a: a, s: s, n: a.Rows, all: s.B * s.M * s.T}
	if s.Form == Full {
		return r, true, ""
	}
	starts := p.Starts.Flat(0, a.Sequences).Reshape(1, a.Sequences)
	n := r.Iota(tensor.I32, r.n, 1, 0)
	begun := r.Binary(starts, n, tensor.Le)
	segment := r.With(r.Reduce(r.As(tensor.I32, begun), 1, tensor.Add), tensor.Sub, 1)
	position := r.Sub(n, r.Reduce(r.Where(begun, starts, 0), 1, tensor.Max))
	r.some = r.Binary(n, p.Starts.Flat(a.Sequences, a.Sequences+1), tensor.Lt)
	r.slot = r.Add(r.With(segment, tensor.Mul, float64(s.T)), r.With(position, tensor.Min, float64(s.T-1))).Reshape(r.n)
	first := compose.Column(r.extended(p.Starts.Flat(0, a.Sequences), s.B*s.M, float64(r.n)))
	r.row = r.With(r.Add(first, r.Iota(tensor.I32, 1, s.T, 1)), tensor.Min, float64(r.n-1)).Reshape(r.all)
	return r, true, ""
}

// extended is x (I32) with v up to length n.
func (r *rows) extended(x *tensor.Tensor, n int, v float64) *tensor.Tensor {
	y := r.New(tensor.I32, n)
	r.core.Copy(y.Flat(0, x.Elems()), x)
	if x.Elems() < n {
		r.core.Fill(y.Flat(x.Elems(), n), v)
	}
	return y
}

// copied reports that a call has its own copy of the rows.
func (r *rows) copied() bool { return r.s.Form == Padded && r.a.Sequences > 1 }

// called are rows in the arrangement of a call.
func (r *rows) called(xs ...*tensor.Tensor) (ys []*tensor.Tensor) {
	for _, x := range xs {
		y := r.As(r.a.DType, x)
		if r.copied() {
			y = r.gather(y, r.row)
		}
		ys = append(ys, y)
	}
	return ys
}

// calledRows allocates rows in the arrangement of a call.
func (r *rows) calledRows(width int) *tensor.Tensor {
	if r.copied() {
		return r.New(r.a.DType, r.all, width)
	}
	return r.New(r.a.DType, r.n, width)
}

// ours are the N rows of a call's result; 0 outside of sequences.
func (r *rows) ours(x *tensor.Tensor) *tensor.Tensor {
	if r.s.Form == Full {
		return x
	}
	if r.copied() {
		x = r.gather(x, r.slot)
	}
	return r.Where(r.some, x, 0)
}

func (r *rows) gather(x, ids *tensor.Tensor) *tensor.Tensor {
	y := r.New(x.DType(), ids.Elems(), x.Width())
	r.core.GatherRows(y, x, ids)
	return y
}

// lse is statistics [S H T] by row [H N].
func (r *rows) lse(stats *tensor.Tensor) *tensor.Tensor {
	segments, h := r.s.B*r.s.M, r.a.Heads
	if r.s.Form == Full {
		return r.Swap(stats, 1, segments, h, r.s.T).Reshape(h, r.n)
	}
	byRow := r.gather(r.Swap(stats, segments, h, r.s.T, 1).Reshape(r.all, h), r.slot)
	return r.Swap(r.Where(r.some, byRow, 0), 1, r.n, h, 1).Reshape(h, r.n)
}

// statistics is lse [H N] by segment [S H T].
func (r *rows) statistics(lse *tensor.Tensor) *tensor.Tensor {
	segments, h := r.s.B*r.s.M, r.a.Heads
	if r.s.Form == Full {
		return r.Swap(r.As(tensor.F32, lse), 1, h, segments, r.s.T).Reshape(segments, h, r.s.T)
	}
	byRow := r.Swap(r.As(tensor.F32, lse), 1, h, r.n, 1).Reshape(r.n, h)
	return r.Swap(r.gather(byRow, r.row), segments, r.s.T, h, 1).Reshape(segments, h, r.s.T)
}

// bounds are the lengths and offsets of a call.
func (r *rows) bounds() []*tensor.Tensor {
	if r.s.Form == Full {
		return nil
	}
	count, segments := r.a.Sequences, r.s.B*r.s.M
	starts := r.a.Starts
	lengths := r.extended(r.Sub(starts.Flat(1, count+1), starts.Flat(0, count)).Reshape(count), segments, 0)
	bounds := []*tensor.Tensor{lengths, lengths}
	if r.s.Form == Packed {
		offsets := r.extended(starts.Flat(0, count), r.s.B*(r.s.M+1), float64(r.n))
		for _, heads := range []int{r.a.Heads, r.a.KVHeads} {
			bounds = append(bounds, r.With(offsets, tensor.Mul, float64(heads*r.a.E)))
		}
	}
	return bounds
}
