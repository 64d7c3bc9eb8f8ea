package autograd

import (
	"math"

	"trireme/tensor"
	"trireme/tensor/compose"
)

// Signs samples a bit for each logit of [N H]: 1 with probability sigmoid(logit), else -1 (F32 [N
// H]). Bit h of row n depends on its logit, key and rows[n]*H + h only; rows is I64 [N]. The
// consumers of signs compute the gradient of logits.
func (t *Tape) Signs(logits *Var, key tensor.RandKey, rows *tensor.Tensor) *Var {
	l, s := t.value(logits), compose.NewScope(t.b)
	defer s.Release()
	n, h := l.Rows(), l.Width()
	at := s.Add(s.With(compose.Column(rows), tensor.Mul, float64(h)), s.Iota(tensor.I64, 1, h, 1))
	words := s.New(tensor.I64, n, h)
	t.b.Words(words, at, key)
	u := s.With(s.With(s.As(tensor.F64, words), tensor.Add, 0.5), tensor.Mul, 0x1p-32)
	p := s.Unary(s.As(tensor.F64, l), tensor.Logistic)
	y := t.newVar(t.b.New(tensor.Activations, t.sums(), n, h))
	t.b.Select(y.Value, s.Binary(u, p, tensor.Lt), s.Scalar(t.sums(), 1), s.Scalar(t.sums(), -1))
	return y
}

// RandomSigns samples fair bits for each of rows (I64 [N]): 1 or -1 [N bits].
func (t *Tape) RandomSigns(bits int, key tensor.RandKey, rows *tensor.Tensor) *Var {
	even := t.b.New(tensor.Activations, t.sums(), rows.Elems(), bits)
	defer even.Release()
	t.b.Fill(even, 0)
	return t.Signs(Const(even), key, rows)
}

// accumulateNarrow accumulates d, in the type of sums, as a gradient of x.
func (t *Tape) accumulateNarrow(x *Var, d *tensor.Tensor) {
	if d.DType() == t.dtype {
		t.accumulate(x, &gradient{d, 1})
		return
	}
	g := &gradient{t.alloc(d.Shape()...), 1}
	t.b.Copy(g.t, d)
	d.Release()
	t.accumulate(x, g)
}

// Maximum rows and codes in a block of CodeTable's gradient. They are constants, so that the order
// of sums is fixed.
const (
	codeRows  = 256
	codeBlock = 1 << 13
)

// CodeTable is y [N D], rows of table [2^H D] at the codes of signs [N H]; bit h of a code is 1 for
// a positive sign. Backward is straight-through: it treats the one-hot code Y as Y + G - stop(G),
// with G its distribution under logits [N H]. table gets its rows' gradients, and logits (nil for
// none) the gradient of the sum over codes of P(code) <dy, table[code]>.
func (t *Tape) CodeTable(signs, logits, table *Var) *Var {
	in := t.value(signs)
	codes := &Var{Value: t.b.New(tensor.Activations, tensor.I32, in.Rows())}
	t.adopt(codes)
	s := compose.NewScope(t.b)
	bits := s.As(tensor.I32, s.With(in, tensor.Gt, 0))
	values := s.Binary(bits, s.Iota(tensor.I32, 1, in.Width(), 1), tensor.Shl)
	t.b.Reduce(codes.Value, values, 1, tensor.Add, tensor.I32)
	s.Release()
	y := t.newVar(t.alloc(in.Rows(), table.Value.Width()), logits, table)
	t.b.GatherRows(y.Value, table.Value, codes.Value)
	saves := []*Var{codes}
	if logits != nil {
		saves = append(saves, logits)
	}
	t.record(y, saves, func(dy *gradient) {
		if dst, acc := gradDst(table); dst != nil {
			t.b.ScatterAdd(dst, dy.t, codes.Value, tensor.NoPadding, acc)
		}
		if logits != nil && logits.requiresGrad {
			t.accumulateNarrow(logits, t.codeGrad(t.value(logits), dy.t, table.Value))
		}
		t.release(dy)
	})
	return y
}

// codeGrad is the gradient, with respect to logits, of the sum over codes c of P(c) v[c]. v is dy
// table^T, P(c) the product over bits h of p[h] or 1-p[h], and the gradient of bit h the sum of
// P(c) v[c] (c's bit h - p[h]). It runs over blocks of codes with equal upper bits.
func (t *Tape) codeGrad(logits, dy, table *tensor.Tensor) *tensor.Tensor {
	s := compose.NewScope(t.b)
	defer s.Release()
	n, h, codes := logits.Rows(), logits.Width(), table.Dim(0)
	p := s.Unary(logits, tensor.Logistic)
	q := s.RSub(1, p)
	d := t.b.New(tensor.Activations, t.sums(), logits.Shape()...)
	t.b.Fill(d, 0)
	step := min(codes, codeBlock)
	values, probs := t.b.New(tensor.Logits, t.sums(), min(n, codeRows), step), t.b.New(tensor.Logits, t.sums(), min(n, codeRows), step)
	defer values.Release()
	defer probs.Release()
	for low := 0; low < codes; low += step {
		s := compose.NewScope(t.b)
		// Bits of 2c+1: the first column is 1 and gives the sum.
		odd := s.With(s.With(s.With(s.Iota(tensor.I64, step, 1, 0), tensor.Add, float64(low)), tensor.Mul, 2), tensor.Add, 1)
		bits := s.As(t.sums(), s.With(s.Binary(odd, s.Iota(tensor.I64, 1, h+1, 1), tensor.Shr), tensor.And, 1))
		sums := s.New(t.sums(), min(n, codeRows), h+1)
		for lo := 0; lo < n; lo += codeRows {
			hi := min(n, lo+codeRows)
			v, sum, d := values.RowRange(0, hi-lo), sums.RowRange(0, hi-lo), d.RowRange(lo, hi)
			t.b.MatMul(v, dy.RowRange(lo, hi), table.RowRange(low, low+step), tensor.MatMulOp{TransB: true})
			t.codeProbs(probs.RowRange(0, hi-lo), p.RowRange(lo, hi), q.RowRange(lo, hi), low)
			t.b.Binary(v, v, probs.RowRange(0, hi-lo), tensor.Mul)
			t.b.MatMul(sum, v, bits, tensor.MatMulOp{})
			part := compose.NewScope(t.b)
			part.Put(d, part.Sub(sum.Cols(1, h+1), part.Mul(sum.Cols(0, 1), p.RowRange(lo, hi))), true)
			part.Release()
		}
		s.Release()
	}
	return d
}

// codeProbs writes the probabilities [n C] of codes from low on, from p and q = 1-p [n H] of each
// bit.
func (t *Tape) codeProbs(probs, p, q *tensor.Tensor, low int) {
	t.b.Fill(probs.Cols(0, 1), 1)
	width := 1
	for h := range p.Width() {
		here, one, zero := probs.Cols(0, width), p.Cols(h, h+1), q.Cols(h, h+1)
		switch {
		case width < probs.Width():
			t.b.Binary(probs.Cols(width, 2*width), here, one, tensor.Mul)
			t.b.Binary(here, here, zero, tensor.Mul)
			width *= 2
		case low>>h&1 == 1:
			t.b.Binary(here, here, one, tensor.Mul)
		default:
			t.b.Binary(here, here, zero, tensor.Mul)
		}
	}
}

// SignLinear is y [N D] = signs [N H] w^T, with w [D H]. Backward replaces signs by their
// expectation under logits [N H]; nil logits get no gradient.
func (t *Tape) SignLinear(signs, logits, w *Var) *Var {
	in := t.value(signs)
	y := t.newVar(t.alloc(in.Rows(), w.Value.Dim(0)), logits, w)
	t.b.MatMul(y.Value, in, w.Value, tensor.MatMulOp{TransB: true})
	saves := []*Var{signs}
	if logits != nil {
		saves = append(saves, logits)
	}
	t.record(y, saves, func(dy *gradient) {
		if dst, acc := gradDst(w); dst != nil {
			t.b.MatMul(dst, dy.t, t.value(signs), tensor.MatMulOp{TransA: true, Accumulate: acc})
		}
		if logits != nil && logits.requiresGrad {
			l, s := t.value(logits), compose.NewScope(t.b)
			d := t.b.New(tensor.Activations, t.sums(), l.Shape()...)
			t.b.MatMul(d, dy.t, w.Value, tensor.MatMulOp{})
			p := s.Unary(l, tensor.Logistic) // the expectation is 2p - 1
			slope := s.With(s.Mul(p, s.RSub(1, p)), tensor.Mul, 2)
			t.b.Binary(d, d, slope, tensor.Mul)
			s.Release()
			t.accumulateNarrow(logits, d)
		}
		t.release(dy)
	})
	return y
}

// FreeBits is the KL divergence of each row's bits from fair coins, in nats: the sum over h of ln 2
// - entropy(sigmoid(logit)), for logits [N H]. Over rows with a label (I32 [N], not negative) it
// adds to sums (F64 [3]) the loss max(0, KL-free), KL, and KL in bits. It computes the gradient in
// forward.
func (t *Tape) FreeBits(sums *tensor.Tensor, logits *Var, labels *tensor.Tensor, free float64) {
	l, s := t.value(logits), compose.NewScope(t.b)
	defer s.Release()
	sums, drop := t.sumsDst(sums)
	defer drop()
	v := s.As(tensor.F64, l)
	p := s.Unary(v, tensor.Logistic)
	pv := s.Mul(p, v)
	tail := s.Unary(s.Unary(s.RSub(0, s.Unary(v, tensor.Abs)), tensor.Exp), tensor.Log1p)
	entropy := s.Sub(s.Add(s.With(v, tensor.Max, 0), tail), pv)
	kl := s.Reduce(s.RSub(math.Ln2, entropy), 1, tensor.Add)
	counted := s.With(compose.Column(labels), tensor.Ge, 0)
	over := s.With(s.With(kl, tensor.Sub, free), tensor.Max, 0)
	for i, x := range []*tensor.Tensor{over, kl, s.With(kl, tensor.Div, math.Ln2)} {
		s.Put(sums.Flat(i, i+1), s.Reduce(s.Where(counted, x, 0), 0, tensor.Add), true)
	}
	if !t.grad || !logits.requiresGrad {
		return
	}
	d := t.b.New(tensor.Activations, t.sums(), l.Shape()...)
	active := s.Binary(counted, s.With(kl, tensor.Gt, free), tensor.And)
	s.Put(d, s.Where(active, s.Mul(pv, s.RSub(1, p)), 0), false)
	t.scaleLoss(d)
	t.back = append(t.back, func() { t.accumulateNarrow(logits, d) })
}
