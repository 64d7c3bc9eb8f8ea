package autograd

import "trireme/tensor"

// A block of logits has up to tensor.BlockBytes, and for large vocabularies more: each block reads the head
// and reads and writes its gradient, which takes longer than the arithmetic of a few rows. The number of rows
// depends on the backend and the vocabulary only, so that the order of sums is fixed, and is a multiple of
// those of products' tiles.
const leastLogitRows, logitRowUnit = 256, 64

// LogitRows is the number of rows in a block of logits on b.
func LogitRows(b tensor.Memory, vocab int) int {
	return max(leastLogitRows, tensor.BlockBytes(b)/4/vocab/logitRowUnit*logitRowUnit)
}

// Labels are the targets of rows.
type Labels struct {
	Targets *tensor.Tensor // I32 [N]; negative: no label
	// Rows and RowTargets are the rows with labels, ascending, with their targets (I32); the first
	// Count are used. Bucket padding is row 0 with a negative target. With nil Rows, any row may
	// have a label.
	Rows, RowTargets *tensor.Tensor
	Count            int
}

// LinearCrossEntropy adds to loss (F64 [1]) the summed cross-entropy of softmax(x w^T), with x [N
// D] and w [V D], over rows with labels.
//
// It gathers these rows in the memory of x's gradient and computes nothing for the others. Peak
// memory is that of labels on all rows.
//
// Logits exist for a block of rows at a time. The loss is a sum, so its gradient is known in
// forward (see SetLossGrad): each block's gradients are computed while its logits exist, and w's
// gradient is written in forward. The gradient of logits is rounded to the activations' type before
// it is multiplied.
func (t *Tape) LinearCrossEntropy(loss *tensor.Tensor, x, w *Var, bias *Var, labels Labels) {
	if w.Value == nil {
		panic("autograd: cross-entropy with a head that is not all-gathered. try: list it in Params of the unit, or in Shared if it is tied")
	}
	in := t.value(x)
	n, vocab := in.Rows(), w.Value.Dim(0)
	step := min(n, LogitRows(t.b, vocab))
	backward := t.grad && (x.requiresGrad || w.requiresGrad)
	var dx *gradient
	if backward && x.requiresGrad {
		dx = &gradient{t.alloc(n, in.Width()), 1}
	}
	logits := t.b.New(tensor.Logits, t.sums(), step, vocab)
	narrow := logits
	if backward && t.dtype != logits.DType() {
		narrow = t.b.New(tensor.Logits, t.dtype, step, vocab)
		defer narrow.Release()
	}
	count, targets := n, labels.Targets
	subset := labels.Rows != nil && (labels.Count < n || tensor.Static(t.b))    // buckets need the gathered path even if they hold all rows
	compact := func(lo, hi int) *tensor.Tensor { return dx.t.RowRange(lo, hi) } // where to gather rows
	if subset {
		count, targets = max(1, labels.Count), labels.RowTargets
		if dx == nil {
			mem := t.b.New(tensor.Workspace, in.DType(), min(step, count), in.Width())
			defer mem.Release()
			compact = func(lo, hi int) *tensor.Tensor { return mem.RowRange(0, hi-lo) }
		}
	}
	dw, added := gradDstIf(backward, w)
	if dw != nil && !added && count > step && tensor.Static(t.b) { // all blocks are alike: a loop of a program
		t.b.Fill(dw, 0)
		added = true
	}
	db, addedBias := gradDstIf(backward, bias)
	for lo := 0; lo < count; lo += step {
		hi := min(count, lo+step)
		block, rows := logits.RowRange(0, hi-lo), in.RowRange(lo, hi)
		if subset {
			rows = compact(lo, hi)
			t.b.GatherRows(rows, in, labels.Rows.Flat(lo, hi))
		}
		t.b.MatMul(block, rows, w.Value, tensor.MatMulOp{TransB: true})
		if bias != nil {
			t.b.AddBias(block, block, bias.Value)
		}
		t.b.CrossEntropy(loss, block, targets.Flat(lo, hi), backward)
		if backward {
			t.scaleLoss(block)
		}
		d := narrow.RowRange(0, hi-lo)
		if narrow != logits {
			t.b.Copy(d, block)
		}
		if dw != nil {
			t.b.MatMul(dw, d, rows, tensor.MatMulOp{TransA: true, Accumulate: added})
			added = true
		}
		if dx != nil { // overwrites rows if they are in dx
			t.b.MatMul(dx.t.RowRange(lo, hi), d, w.Value, tensor.MatMulOp{})
		}
		if db != nil {
			t.b.BiasGrad(db, block, addedBias)
			addedBias = true
		}
	}
	logits.Release()
	if dx != nil {
		if subset {
			t.b.ScatterRows(dx.t, labels.Rows.Flat(0, count))
		}
		t.back = append(t.back, func() { t.accumulate(x, dx) })
	}
}

// Classify adds to sums (F64 [1+3C]) the summed cross-entropy of logits [N C], over rows whose
// label (I32 [N]) is not negative, and the counts of tensor.Lookup.CountClasses. It computes the
// gradient in forward.
func (t *Tape) Classify(sums *tensor.Tensor, logits *Var, labels *tensor.Tensor) {
	in := t.value(logits)
	c := in.Width()
	d := t.b.New(tensor.Activations, t.sums(), in.Shape()...)
	t.b.Copy(d, in)
	sums, done := t.sumsDst(sums)
	defer done()
	backward := t.grad && logits.requiresGrad
	t.b.CountClasses(sums.Flat(1, 1+3*c), d, labels)
	t.b.CrossEntropy(sums.Flat(0, 1), d, labels, backward)
	if !backward {
		d.Release()
		return
	}
	t.scaleLoss(d)
	t.back = append(t.back, func() { t.accumulateNarrow(logits, d) })
}

// sumsDst is the destination of a loss's sums, or scratch during recomputation, where they have
// been added before. done frees it.
func (t *Tape) sumsDst(sums *tensor.Tensor) (dst *tensor.Tensor, done func()) {
	if !t.recomputing {
		return sums, func() {}
	}
	dst = t.b.New(tensor.Workspace, sums.DType(), sums.Shape()...)
	t.b.Fill(dst, 0)
	return dst, dst.Release
}

func gradDstIf(want bool, v *Var) (*tensor.Tensor, bool) {
	if !want {
		return nil, false
	}
	return gradDst(v)
}
