package autograd

import "trireme/tensor"

// Signs draws a bit for each of logits [N H]: 1 with probability sigmoid(logit), else -1 (F32
// [N H]). Row n's depend on key and first[0]+n (first is I64 [1]). They have no gradient of their own:
// what reads them gives it to the logits.
func (t *Tape) Signs(logits *Var, key tensor.RandKey, first *tensor.Tensor) *Var {
	l, done := t.wide(logits)
	defer done()
	s := t.newVar(t.b.New(tensor.Activations, t.sums(), l.Shape()...))
	t.b.SampleSigns(s.Value, l, key, first)
	return s
}

// FairSigns are n rows of so many bits, each 1 or -1 as likely.
func (t *Tape) FairSigns(n, bits int, key tensor.RandKey, first *tensor.Tensor) *Var {
	even := t.b.New(tensor.Activations, t.sums(), n, bits)
	defer even.Release()
	t.b.Fill(even, 0)
	return t.Signs(Const(even), key, first)
}

// wide is a value in the type of sums; done ends its use.
func (t *Tape) wide(x *Var) (v *tensor.Tensor, done func()) {
	in := t.value(x)
	if in.DType() == t.sums() {
		return in, func() {}
	}
	v = t.b.New(tensor.Activations, t.sums(), in.Shape()...)
	t.b.Copy(v, in)
	return v, v.Release
}

// giveNarrow hands over a gradient in the type of sums.
func (t *Tape) giveNarrow(x *Var, d *tensor.Tensor) {
	if d.DType() == t.dtype {
		t.give(x, &gradient{d, 1})
		return
	}
	g := &gradient{t.alloc(d.Shape()...), 1}
	t.b.Copy(g.t, d)
	d.Release()
	t.give(x, g)
}

// A block of CodeTable's gradient has so many rows and codes. Both are constants, so that sums
// come in the same order everywhere.
const (
	codeRows  = 512
	codeBlock = 1 << 13
)

// CodeTable is y [N D], rows of table [2^H D] at the codes of signs [N H]. The way back treats
// the one-hot code Y as Y + G - stop(G), where G is its distribution under logits [N H]: table
// gets its rows' gradients, and logits the gradient of the sum over all codes of P(code) <dy,
// table[code]>, a block of codes at a time. logits nil get none.
func (t *Tape) CodeTable(signs, logits, table *Var) *Var {
	in := t.value(signs)
	codes := &Var{Value: t.b.New(tensor.Activations, tensor.I32, in.Rows())}
	t.adopt(codes)
	t.b.SignCodes(codes.Value, in)
	y := t.newVar(t.alloc(in.Rows(), table.Value.Width()), logits, table)
	t.b.Gather(y.Value, table.Value, codes.Value)
	saves := []*Var{codes}
	if logits != nil {
		saves = append(saves, logits)
	}
	t.record(y, saves, func(dy *gradient) {
		if dst, acc := sink(table); dst != nil {
			t.b.ScatterAdd(dst, dy.t, codes.Value, tensor.NoPadding, acc)
		}
		if logits != nil && logits.wants {
			t.codeGrad(logits, dy.t, table.Value)
		}
		t.release(dy)
	})
	return y
}

func (t *Tape) codeGrad(logits *Var, dy, table *tensor.Tensor) {
	l, done := t.wide(logits)
	defer done()
	d := t.b.New(tensor.Activations, t.sums(), l.Shape()...)
	t.b.Fill(d, 0)
	n, codes := l.Rows(), table.Dim(0)
	step := min(codes, codeBlock)
	block := t.b.New(tensor.Logits, t.sums(), min(n, codeRows), step)
	for lo := 0; lo < n; lo += codeRows {
		hi := min(n, lo+codeRows)
		part := block.RowRange(0, hi-lo)
		for low := 0; low < codes; low += step {
			t.b.MatMul(part, dy.RowRange(lo, hi), table.RowRange(low, low+step), tensor.MatMulOp{TransB: true})
			t.b.CodesBackward(d.RowRange(lo, hi), part, l.RowRange(lo, hi), low)
		}
	}
	block.Release()
	t.giveNarrow(logits, d)
}

// SignLinear is y [N D] = signs [N H] w^T, with w [D H]. The way back takes signs for their
// expectation under logits [N H]; nil logits get none.
func (t *Tape) SignLinear(signs, logits, w *Var) *Var {
	in := t.value(signs)
	y := t.newVar(t.alloc(in.Rows(), w.Value.Dim(0)), logits, w)
	t.b.MatMul(y.Value, in, w.Value, tensor.MatMulOp{TransB: true})
	saves := []*Var{signs}
	if logits != nil {
		saves = append(saves, logits)
	}
	t.record(y, saves, func(dy *gradient) {
		if dst, acc := sink(w); dst != nil {
			t.b.MatMul(dst, dy.t, t.value(signs), tensor.MatMulOp{TransA: true, Accumulate: acc})
		}
		if logits != nil && logits.wants {
			l, done := t.wide(logits)
			d := t.b.New(tensor.Activations, t.sums(), l.Shape()...)
			t.b.MatMul(d, dy.t, w.Value, tensor.MatMulOp{})
			t.b.SignsBackward(d, d, l)
			done()
			t.giveNarrow(logits, d)
		}
		t.release(dy)
	})
	return y
}

// FreeBits adds to sums (F64 [3]) what tensor.Latents.FreeBits says of logits [N H]: the loss
// max(0, KL-free) of rows whose label is not negative, KL in nats, and in bits. The loss is a
// sum: its gradient is taken at once.
func (t *Tape) FreeBits(sums *tensor.Tensor, logits *Var, labels *tensor.Tensor, free float64) {
	l, done := t.wide(logits)
	d := t.b.New(tensor.Activations, t.sums(), l.Shape()...)
	sums, drop := t.once(sums)
	defer drop()
	t.b.FreeBits(sums, d, l, labels, free)
	done()
	if !t.grad || !logits.wants {
		d.Release()
		return
	}
	t.scaled(d)
	t.back = append(t.back, func() { t.giveNarrow(logits, d) })
}
