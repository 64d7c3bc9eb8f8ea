package autograd

import "trireme/tensor"

// logitBytes bounds a block of logits. The block's rows depend on the vocabulary alone, so
// that sums over blocks come in the same order everywhere.
const logitBytes = 32 << 20

// LogitRows is the number of rows whose logits over a vocabulary exist at one time.
func LogitRows(vocab int) int { return max(16, logitBytes/4/vocab) }

// Labels are what the rows of a value [N ...] are to predict.
type Labels struct {
	Targets *tensor.Tensor // I32 [N]: of each row; negative is not counted
	// Rows and Of are the rows that are counted, ascending, and their targets, of which the first
	// Count are read (I32). Those after the last that is counted are row 0 with a negative target:
	// they change no bit, so that Count may be a bucket's. Where Rows is nil any row may be counted.
	Rows, Of *tensor.Tensor
	Count    int
}

// LinearCrossEntropy adds to loss (F64 [1]) the sum over counted rows of the cross-entropy of
// softmax(x w^T) against their targets. x is [N D], w [V D].
//
// Where labels say that some rows are not counted, those that are stand together in the memory
// of x's gradient, and nothing is computed of the others. Memory is as if all were counted.
//
// Logits exist for a block of rows at a time. The loss is a sum, so its own gradient is 1 (or what SetLossGrad says) and
// known at once: each block's gradient is taken while its logits are there, and nothing is
// computed twice. w's gradient is therefore written on the way forward. The gradient of
// logits is rounded as that of any activation before it is multiplied.
func (t *Tape) LinearCrossEntropy(loss *tensor.Tensor, x, w *Var, bias *Var, labels Labels) {
	in := t.value(x)
	n, vocab := in.Rows(), w.Value.Dim(0)
	step := min(n, LogitRows(vocab))
	backward := t.grad && (x.wants || w.wants)
	var dx *gradient
	if backward && x.wants {
		dx = &gradient{t.alloc(n, in.Width()), 1}
	}
	logits := t.b.New(tensor.Logits, t.sums(), step, vocab)
	narrow := logits
	if backward && t.dtype != logits.DType() {
		narrow = t.b.New(tensor.Logits, t.dtype, step, vocab)
		defer narrow.Release()
	}
	count, targets := n, labels.Targets
	some := labels.Rows != nil && (labels.Count < n || tensor.Static(t.b))   // in a bucket of all, some may not count
	near := func(lo, hi int) *tensor.Tensor { return dx.t.RowRange(lo, hi) } // for counted rows of x
	if some {
		count, targets = max(1, labels.Count), labels.Of
		if dx == nil {
			mem := t.b.New(tensor.Workspace, in.DType(), min(step, count), in.Width())
			defer mem.Release()
			near = func(lo, hi int) *tensor.Tensor { return mem.RowRange(0, hi-lo) }
		}
	}
	dw, added := sinkIf(backward, w)
	db, addedBias := sinkIf(backward, bias)
	for lo := 0; lo < count; lo += step {
		hi := min(count, lo+step)
		block, rows := logits.RowRange(0, hi-lo), in.RowRange(lo, hi)
		if some {
			rows = near(lo, hi)
			t.b.GatherRows(rows, in, labels.Rows.Flat(lo, hi))
		}
		t.b.MatMul(block, rows, w.Value, tensor.MatMulOp{TransB: true})
		if bias != nil {
			t.b.AddBias(block, block, bias.Value)
		}
		t.b.CrossEntropy(loss, block, targets.Flat(lo, hi), backward)
		if backward {
			t.scaled(block)
		}
		d := narrow.RowRange(0, hi-lo)
		if narrow != logits {
			t.b.Copy(d, block)
		}
		if dw != nil {
			t.b.MatMul(dw, d, rows, tensor.MatMulOp{TransA: true, Accumulate: added})
			added = true
		}
		if dx != nil { // takes the place of rows where they are near
			t.b.MatMul(dx.t.RowRange(lo, hi), d, w.Value, tensor.MatMulOp{})
		}
		if db != nil {
			t.b.BiasGrad(db, block, addedBias)
			addedBias = true
		}
	}
	logits.Release()
	if dx != nil {
		if some {
			t.b.ScatterRows(dx.t, labels.Rows.Flat(0, count))
		}
		t.back = append(t.back, func() { t.give(x, dx) })
	}
}

// Classify adds to sums (F64 [1+3C]) the summed cross-entropy of the rows of logits [N C]
// whose label (I32 [N]) is not negative, and what tensor.Lookup.CountClasses counts. The loss
// is a sum: its gradient is taken at once.
func (t *Tape) Classify(sums *tensor.Tensor, logits *Var, labels *tensor.Tensor) {
	in := t.value(logits)
	c := in.Width()
	d := t.b.New(tensor.Activations, t.sums(), in.Shape()...)
	t.b.Copy(d, in)
	sums, done := t.once(sums)
	defer done()
	backward := t.grad && logits.wants
	t.b.CountClasses(sums.Flat(1, 1+3*c), d, labels)
	t.b.CrossEntropy(sums.Flat(0, 1), d, labels, backward)
	if !backward {
		d.Release()
		return
	}
	t.scaled(d)
	t.back = append(t.back, func() { t.giveNarrow(logits, d) })
}

// once is where an operation adds its sums: sums, or, where it ran before and they have been
// counted, a place that done throws away.
func (t *Tape) once(sums *tensor.Tensor) (dst *tensor.Tensor, done func()) {
	if !t.again {
		return sums, func() {}
	}
	dst = t.b.New(tensor.Workspace, sums.DType(), sums.Shape()...)
	t.b.Fill(dst, 0)
	return dst, dst.Release
}

func sinkIf(want bool, v *Var) (*tensor.Tensor, bool) {
	if !want {
		return nil, false
	}
	return sink(v)
}
