package cpu

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

func (b *Backend) AddBias(dst, x, bias *tensor.Tensor) {
	const op = "add bias"
	rows, width := sameShape(op, dst, x)
	check(bias.Elems() == width && bias.Contiguous(), op, "%v to %v", bias, x)
	o, in, bi := floats(op, dst), floats(op, x), floats(op, bias)
	w := b.rowScratch(width, &o, &in, &bi)
	defer w.release()
	b.rows(rows, width, func(lo, hi, thread int) {
		t := bi.load(0, width, w.row(thread, 2))
		for r := lo; r < hi; r++ {
			y := o.dest(r*o.ld, width, w.row(thread, 0))
			kernel.Add(y, in.load(r*in.ld, width, w.row(thread, 1)), t)
			o.store(r*o.ld, y)
		}
	})
}

// BiasGrad sums each column's rows in order.
func (b *Backend) BiasGrad(dbias, dy *tensor.Tensor, accumulate bool) {
	const op = "bias gradient"
	rows, width := dy.Rows(), dy.Width()
	check(dbias.Elems() == width && dbias.Contiguous(), op, "%v of %v", dbias, dy)
	o, in := floats(op, dbias), floats(op, dy)
	const minCols = 256 // 1 KiB per row
	cols := width
	if rows*width > inlineElems {
		cols = partSize(width, 2*b.pool.threads, minCols, 16)
	}
	s := b.scratch(3 * width * 4)
	defer s.release()
	tmp := elems[float32](s, tensor.F32)
	b.pool.run((width+cols-1)/max(1, cols), func(tile, _ int) {
		lo := tile * cols
		n := min(cols, width-lo)
		sum, row, old := tmp[lo:][:n], tmp[width+lo:][:n], tmp[2*width+lo:][:n]
		clear(sum)
		for r := range rows {
			kernel.Add(sum, sum, in.load(r*in.ld+lo, n, row))
		}
		if accumulate {
			kernel.Add(sum, o.load(lo, n, old), sum)
		}
		copy(o.dest(lo, n, old), sum)
		o.store(lo, sum)
	})
}
