package cpu

import (
	"slices"

	"trireme/internal/kernel"
	"trireme/tensor"
)

func (b *Backend) WriteRows(dst, x, at *tensor.Tensor) {
	const op = "write rows"
	first := int(indices(op, at, 1)[0])
	check(dst.Width() == x.Width() && first >= 0 && first <= dst.Rows()-x.Rows(), op, "%v from row %d of %v", x, first, dst)
	b.Copy(dst.RowRange(first, first+x.Rows()), x)
}

func (b *Backend) GatherRows(y, table, ids *tensor.Tensor) {
	const op = "gather rows"
	rows, width := y.Rows(), y.Width()
	at := indices(op, ids, rows)
	check(table.Width() == width, op, "rows of %v to %v", table, y)
	for n, id := range at {
		if id < 0 || int(id) >= table.Rows() {
			check(false, op, "id %d of row %d is outside %v", id, n, table)
		}
	}
	o, t := floats(op, y), floats(op, table)
	tmp := b.rowScratch(width, &o, &t)
	defer tmp.release()
	b.rows(rows, width, func(lo, hi, thread int) {
		for n := lo; n < hi; n++ {
			src := int(at[n]) * t.ld
			switch {
			case o.narrow() && o.dt == t.dt:
				copy(o.h[n*o.ld:][:width], t.h[src:])
			case o.narrow():
				o.store(n*o.ld, t.load(src, width, tmp.row(thread, 0)))
			case t.narrow():
				t.load(src, width, o.f[n*o.ld:])
			default:
				copy(o.f[n*o.ld:][:width], t.f[src:])
			}
		}
	})
}

// ScatterAdd sorts rows by id, and sums rows with one id in order.
func (b *Backend) ScatterAdd(dtable, dy, ids *tensor.Tensor, padding int, accumulate bool) {
	const op = "scatter add"
	rows, width := dy.Rows(), dy.Width()
	at := indices(op, ids, rows)
	check(dtable.Width() == width, op, "rows of %v to %v", dy, dtable)
	if !accumulate {
		b.Fill(dtable, 0)
	}
	s := b.scratch(rows * 8)
	defer s.release()
	order := elems[int64](s, tensor.I64) // id in the upper, n in the lower half: a sort groups ids and keeps the order of n
	for n, id := range at {
		if id < 0 || int(id) >= dtable.Rows() {
			check(false, op, "id %d of row %d is outside %v", id, n, dtable)
		}
		order[n] = int64(id)<<32 | int64(n)
	}
	slices.Sort(order)
	o, d := floats(op, dtable), floats(op, dy)
	mem := b.scratch(b.pool.threads * 2 * width * 4)
	defer mem.release()
	tmp := elems[float32](mem, tensor.F32)
	b.rows(rows, width, func(lo, hi, thread int) {
		sum, row := tmp[thread*2*width:][:width], tmp[(thread*2+1)*width:][:width]
		// a tile owns the ids that start in it
		for lo > 0 && lo < hi && order[lo]>>32 == order[lo-1]>>32 {
			lo++
		}
		for lo < hi {
			id := order[lo] >> 32
			if id == int64(padding) {
				for lo < rows && order[lo]>>32 == id {
					lo++
				}
				continue
			}
			first := true
			for ; lo < rows && order[lo]>>32 == id; lo++ {
				x := d.load(int(order[lo]&(1<<32-1))*d.ld, width, row)
				if first {
					copy(sum, x)
					first = false
				} else {
					kernel.Add(sum, sum, x)
				}
			}
			off := int(id) * o.ld
			if accumulate {
				kernel.Add(sum, o.load(off, width, row), sum)
			}
			if o.narrow() {
				o.store(off, sum)
			} else {
				copy(o.f[off:], sum)
			}
		}
	})
}

// ScatterRows moves the last row first.
func (b *Backend) ScatterRows(x, at *tensor.Tensor) {
	const op = "scatter rows"
	to := indices(op, at, at.Elems())
	width, end, o := x.Width(), x.Rows(), floats(op, x)
	row := func(i int) operand { return o.row(i, width) }
	for i := len(to) - 1; i >= 0; i-- {
		at := int(to[i])
		if at >= 0 && at < i && end == x.Rows() {
			continue // no target
		}
		if at < i || at >= end {
			check(false, op, "row %d of %v moves to %d, the next to %d", i, x, at, end)
		}
		for r := at + 1; r < end; r++ {
			row(r).clear()
		}
		if at != i {
			row(at).copy(row(i))
		}
		end = at
	}
	for r := range end {
		row(r).clear()
	}
}

// CrossEntropy computes rows in parallel and adds their losses in order.
func (b *Backend) CrossEntropy(loss, logits, labels *tensor.Tensor, grad bool) {
	const op = "cross entropy"
	rows, width := logits.Rows(), logits.Width()
	at := indices(op, labels, rows)
	check(loss.DType() == tensor.F64 && loss.Elems() == 1, op, "the loss %v", loss)
	for n, l := range at {
		if int(l) >= width { // check would allocate its arguments for each row
			check(false, op, "label %d of row %d is outside %v", l, n, logits)
		}
	}
	x := floats(op, logits)
	tmp := b.rowScratch(width, &x)
	defer tmp.release()
	s := b.scratch(rows * 8)
	defer s.release()
	losses := elems[float64](s, tensor.F64)
	b.rows(rows, width, func(lo, hi, thread int) {
		for n := lo; n < hi; n++ {
			losses[n] = 0
			if at[n] < 0 && !grad {
				continue
			}
			row := x.dest(n*x.ld, width, tmp.row(thread, 0))
			if at[n] < 0 {
				clear(row)
			} else {
				losses[n] = kernel.CrossEntropy(x.load(n*x.ld, width, row), int(at[n]), grad)
			}
			if grad {
				x.store(n*x.ld, row)
			}
		}
	})
	total := tensor.Host[float64](loss)
	for _, l := range losses[:rows] {
		total[0] += l
	}
}

func (b *Backend) CountClasses(counts, logits, labels *tensor.Tensor) {
	const op = "count classes"
	rows, classes := logits.Rows(), logits.Width()
	at := indices(op, labels, rows)
	check(counts.DType() == tensor.F64 && counts.Elems() == 3*classes && counts.Contiguous(), op, "counts %v of %v", counts, logits)
	x := floats(op, logits)
	s := b.scratch(classes * 4)
	defer s.release()
	tmp, n := elems[float32](s, tensor.F32), tensor.Host[float64](counts)
	for r, label := range at[:rows] {
		if label < 0 {
			continue
		}
		if int(label) >= classes {
			check(false, op, "label %d of row %d is outside %v", label, r, logits)
		}
		row, class := x.load(r*x.ld, classes, tmp), 0
		for c, v := range row {
			if v > row[class] {
				class = c
			}
		}
		if class == int(label) {
			n[label]++
		}
		n[classes+class]++
		n[2*classes+int(label)]++
	}
}

// indices reads I32 [rows].
func indices(op string, t *tensor.Tensor, rows int) []int32 {
	check(t.DType() == tensor.I32 && t.Elems() == rows && t.Contiguous(), op, "indices %v for %d rows", t, rows)
	return tensor.Host[int32](t)
}
