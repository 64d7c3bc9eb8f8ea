package compose

import (
	"math"

	"trireme/tensor"
)

// attention is shared by forward and backward. Letters: N rows, H heads in K groups of G, E head
// size. Scores are [N N] per head, minus infinity where masked.
type attention struct {
	*Scope
	p       tensor.AttentionParams
	n, g    int
	q, k, v *tensor.Tensor // [K G*N E], [K N E]
	scores  *tensor.Tensor // [H*N N]
	words   *tensor.Tensor // for dropout [H*N N], or nil
}

func (o Ops) attend(q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) *attention {
	a := &attention{Scope: NewScope(o.c), p: p, n: q.Rows(), g: p.Heads / p.KVHeads}
	a.q, a.k, a.v = a.split(q), a.split(k), a.split(v)
	first, pos, some := a.positions()
	row := func(x *tensor.Tensor) *tensor.Tensor { return x.Reshape(1, a.n) }
	sees := a.Binary(a.Binary(first, row(first), tensor.Eq), some, tensor.And)
	also := func(x *tensor.Tensor) { sees = a.Binary(sees, x, tensor.And) }
	if p.Causal {
		also(a.Binary(row(pos), pos, tensor.Le))
	}
	if p.Window > 0 {
		also(a.Binary(row(pos), a.With(pos, tensor.Sub, float64(p.Window)), tensor.Gt))
	}
	if docs != nil {
		also(a.Binary(Column(docs), row(docs), tensor.Eq))
	}
	scores := a.product(a.q, a.k, tensor.MatMulOp{TransB: true})
	scores = a.With(scores.Reshape(p.Heads, a.n*a.n), tensor.Mul, p.Scale)
	a.scores = a.Where(sees.Reshape(1, a.n*a.n), scores, math.Inf(-1)).Reshape(p.Heads*a.n, a.n)
	if p.Dropout != 0 {
		head := a.Add(a.With(row(p.Rows), tensor.Mul, float64(p.Heads)), a.Iota(tensor.I64, p.Heads, 1, 0))
		at := a.Add(Column(a.With(head, tensor.Mul, float64(p.MaxSeqLen))), a.As(tensor.I64, row(pos)))
		a.words = a.Scope.words(at, p.Key)
	}
	return a
}

// positions returns three columns: the first row of each row's sequence, the row's position in it,
// and whether the row is in a sequence.
func (a *attention) positions() (first, pos, some *tensor.Tensor) {
	n, count := a.Iota(tensor.I32, a.n, 1, 0), a.p.Starts.Elems()
	starts := a.p.Starts.Reshape(1, count)
	first = a.Reduce(a.Where(a.Binary(starts, n, tensor.Le), starts, 0), 1, tensor.Max)
	return first, a.Sub(n, first), a.Binary(n, starts.Cols(count-1, count), tensor.Lt)
}

// split regroups x [N heads*E] by key and value head: [K heads/K*N E].
func (a *attention) split(x *tensor.Tensor) *tensor.Tensor {
	heads := x.Width() / a.p.E
	return a.Swap(a.Floats(x), 1, a.n, heads, a.p.E).Reshape(a.p.KVHeads, heads/a.p.KVHeads*a.n, a.p.E)
}

// join is the inverse of split.
func (a *attention) join(dst, x *tensor.Tensor) {
	a.Put(dst, a.Swap(x, 1, dst.Width()/a.p.E, a.n, a.p.E).Reshape(dst.Shape()...), false)
}

func (s *Scope) product(x, y *tensor.Tensor, op tensor.MatMulOp) *tensor.Tensor {
	rows, width := x.Dim(1), y.Dim(2)
	if op.TransA {
		rows = x.Dim(2)
	}
	if op.TransB {
		width = y.Dim(1)
	}
	z := s.New(x.DType(), x.Dim(0), rows, width)
	s.c.MatMul(z, x, y, op)
	return z
}

// weights is the softmax of the scores, from lse.
func (a *attention) weights(lse *tensor.Tensor) *tensor.Tensor {
	return a.Unary(a.Sub(a.scores, Column(lse)), tensor.Exp)
}

// drop applies dropout.
func (a *attention) drop(x *tensor.Tensor) *tensor.Tensor {
	if a.words != nil {
		x = a.dropout(x, a.words, a.p.Dropout)
	}
	return x
}

// grouped is x [H*N ...] batched by key and value head.
func (a *attention) grouped(x *tensor.Tensor) *tensor.Tensor {
	return x.Reshape(a.p.KVHeads, a.g*a.n, x.Width())
}

// logSumExp of each row [N 1]; 0 for a fully masked row.
func (s *Scope) logSumExp(x *tensor.Tensor) *tensor.Tensor {
	m := s.Reduce(x, 1, tensor.Max)
	some := s.With(m, tensor.Gt, math.Inf(-1))
	m = s.Where(some, m, 0)
	z := s.Reduce(s.Unary(s.Sub(x, m), tensor.Exp), 1, tensor.Add)
	return s.Where(some, s.Add(m, s.Unary(z, tensor.Log)), 0)
}

// Attention: w = exp(scores - lse), o = dropout(w) v.
func (o Ops) Attention(out, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	if q.Rows() == 0 {
		return
	}
	a := o.attend(q, k, v, docs, p)
	defer a.Release()
	l := a.logSumExp(a.scores)
	a.Put(lse, l, false)
	a.join(out, a.product(a.grouped(a.drop(a.weights(l))), a.v, tensor.MatMulOp{}))
}

// AttentionBackward: dv = dropout(w)^T do; ds = w (dropout(do v^T) - rowsum(do o)) scale; dq = ds k;
// dk = ds^T q.
func (o Ops) AttentionBackward(dq, dk, dv, do, out, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	if q.Rows() == 0 {
		return
	}
	o.c.Barrier(q, k, v, do) // a compiler must recompute the scores, not keep them
	a := o.attend(q, k, v, docs, p)
	defer a.Release()
	l := Column(lse)
	w, g, y := a.weights(l), a.split(do), a.split(out)
	delta := a.Reduce(a.Mul(g, y), 1, tensor.Add)
	dw := a.drop(a.product(g, a.v, tensor.MatMulOp{TransB: true}).Reshape(w.Shape()...))
	ds := a.grouped(a.With(a.Mul(w, a.Sub(dw, delta)), tensor.Mul, p.Scale))
	trans := tensor.MatMulOp{TransA: true}
	gq, gk, gv := a.product(ds, a.k, tensor.MatMulOp{}), a.product(ds, a.q, trans), a.product(a.grouped(a.drop(w)), g, trans)
	a.join(dq, gq)
	a.join(dk, gk)
	a.join(dv, gv)
}

// AttentionDecode is attention of one query over all rows. Rows outside its window have weight 0.
func (o Ops) AttentionDecode(out, q, k, v, at *tensor.Tensor, p tensor.AttentionParams) {
	s := NewScope(o.c)
	defer s.Release()
	n := k.Rows()
	sees := func(rows, width, dim int) *tensor.Tensor {
		pos := s.Iota(tensor.I32, rows, width, dim)
		sees := s.Binary(pos, at, tensor.Le)
		if p.Window > 0 {
			sees = s.Binary(sees, s.Binary(pos, s.With(at, tensor.Sub, float64(p.Window)), tensor.Gt), tensor.And)
		}
		return sees
	}
	split := func(x *tensor.Tensor) *tensor.Tensor {
		return s.Swap(s.Floats(x), 1, n, p.KVHeads, p.E).Reshape(p.KVHeads, n, p.E)
	}
	scores := s.product(s.Floats(q).Reshape(p.KVHeads, p.Heads/p.KVHeads, p.E), split(k), tensor.MatMulOp{TransB: true})
	scores = s.Where(sees(1, n, 1), s.With(scores.Reshape(p.Heads, n), tensor.Mul, p.Scale), math.Inf(-1))
	w := s.Unary(s.Sub(scores, s.logSumExp(scores)), tensor.Exp)
	v = s.Where(sees(n, 1, 0), v, 0) // 0 * NaN is NaN
	s.Put(out, s.product(w.Reshape(p.KVHeads, p.Heads/p.KVHeads, n), split(v), tensor.MatMulOp{}), false)
}
