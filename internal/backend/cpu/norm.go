package cpu

import (
	"math"

	"trireme/internal/kernel"
	"trireme/tensor"
)

func (b *Backend) RMSNorm(y, rstd, sum, x, res, w *tensor.Tensor, eps float64) {
	n := b.newNorm("rms norm", y, x, w, nil)
	n.statistics(nil, rstd)
	n.residual(sum, res)
	defer n.scratch().release()
	n.run(func(r, thread int) {
		in := n.input(r, thread)
		s := float32(1 / math.Sqrt(kernel.Squares(in)/float64(n.width)+eps))
		n.rstd[r] = s
		out := n.y.dest(r*n.y.ld, n.width, n.tmp.row(thread, 1))
		kernel.RMSScale(out, in, n.w, s)
		n.y.store(r*n.y.ld, out)
	})
}

func (b *Backend) RecomputeRMSNorm(y, x, rstd, w *tensor.Tensor) {
	n := b.newNorm("recompute rms norm", y, x, w, nil)
	n.statistics(nil, rstd)
	defer n.scratch().release()
	n.run(func(r, thread int) {
		out := n.y.dest(r*n.y.ld, n.width, n.tmp.row(thread, 1))
		kernel.RMSScale(out, n.input(r, thread), n.w, n.rstd[r])
		n.y.store(r*n.y.ld, out)
	})
}

func (b *Backend) LayerNorm(y, mean, rstd, sum, x, res, w, bias *tensor.Tensor, eps float64) {
	n := b.newNorm("layer norm", y, x, w, bias)
	n.statistics(mean, rstd)
	n.residual(sum, res)
	defer n.scratch().release()
	n.run(func(r, thread int) {
		in := n.input(r, thread)
		m := float32(kernel.Sum(in) / float64(n.width))
		s := float32(1 / math.Sqrt(kernel.CenteredSquares(in, m)/float64(n.width)+eps))
		n.mean[r], n.rstd[r] = m, s
		out := n.y.dest(r*n.y.ld, n.width, n.tmp.row(thread, 1))
		kernel.LayerScale(out, in, n.w, n.bias, m, s)
		n.y.store(r*n.y.ld, out)
	})
}

func (b *Backend) RecomputeLayerNorm(y, x, mean, rstd, w, bias *tensor.Tensor) {
	n := b.newNorm("recompute layer norm", y, x, w, bias)
	n.statistics(mean, rstd)
	defer n.scratch().release()
	n.run(func(r, thread int) {
		out := n.y.dest(r*n.y.ld, n.width, n.tmp.row(thread, 1))
		kernel.LayerScale(out, n.input(r, thread), n.w, n.bias, n.mean[r], n.rstd[r])
		n.y.store(r*n.y.ld, out)
	})
}

// norm is one forward normalization.
type norm struct {
	b           *Backend
	op          string
	first       *tensor.Tensor
	rows, width int
	unit        int // elements normalized together: the width, or a head
	y, x        operand
	res, sum    operand
	w, bias     []float32 // converted unless F32
	mean, rstd  []float32
	tmp         rowScratch
	gains       scratch
}

func (b *Backend) newNorm(op string, y, x, w, bias *tensor.Tensor) *norm {
	return b.newUnitNorm(op, x.Width(), y, x, w, bias)
}

func (b *Backend) newUnitNorm(op string, unit int, y, x, w, bias *tensor.Tensor) *norm {
	n := &norm{b: b, op: op, first: x, unit: unit, y: floats(op, y), x: floats(op, x)}
	n.rows, n.width = sameShape(op, x, y)
	check(unit == n.width || unit > 0 && n.width%unit == 0, op, "heads of %d in %v", unit, x)
	n.gains = b.scratch(2 * unit * 4)
	f := elems[float32](n.gains, tensor.F32)
	n.w = n.gain(w, f)
	if bias != nil {
		n.bias = n.gain(bias, f[unit:])
	}
	return n
}

// gain reads a vector of a unit's length.
func (n *norm) gain(t *tensor.Tensor, tmp []float32) []float32 {
	check(t.Elems() == n.unit && t.Contiguous(), n.op, "%v for %v", t, n.first)
	o := floats(n.op, t)
	return o.load(0, n.unit, tmp)
}

// units is the number of units per row.
func (n *norm) units() int {
	if n.unit == n.width {
		return 1
	}
	return n.width / n.unit
}

func (n *norm) statistics(mean, rstd *tensor.Tensor) {
	n.rstd = n.column(rstd)
	if mean != nil {
		n.mean = n.column(mean)
	}
}

func (n *norm) column(t *tensor.Tensor) []float32 {
	check(t.DType() == tensor.F32 && t.Elems() == n.rows*n.units() && t.Contiguous(), n.op, "statistics %v of %v", t, n.first)
	return tensor.Host[float32](t)
}

func (n *norm) residual(sum, res *tensor.Tensor) {
	check(res == nil || sum != nil, n.op, "a residual needs a destination for the sum")
	if res != nil {
		sameShape(n.op, n.first, sum, res)
		n.res, n.sum = floats(n.op, res), floats(n.op, sum)
	}
}

// scratch allocates rows for the threads.
func (n *norm) scratch() *norm {
	n.tmp = n.b.rowScratch(n.width, &n.x, &n.y, &n.sum, &n.res)
	return n
}

func (n *norm) release() {
	n.tmp.release()
	n.gains.release()
}

func (n *norm) run(f func(r, thread int)) {
	n.b.rows(n.rows, n.width, func(lo, hi, thread int) {
		for r := lo; r < hi; r++ {
			f(r, thread)
		}
	})
}

// input is row r of the norm's input. A sum stored in 16 bits is read back, so that a recomputation
// gives the same bits.
func (n *norm) input(r, thread int) []float32 {
	x := n.x.load(r*n.x.ld, n.width, n.tmp.row(thread, 0))
	if !n.res.present() {
		return x
	}
	s := n.sum.dest(r*n.sum.ld, n.width, n.tmp.row(thread, 2))
	kernel.Add(s, x, n.res.load(r*n.res.ld, n.width, n.tmp.row(thread, 3)))
	n.sum.store(r*n.sum.ld, s)
	return n.sum.load(r*n.sum.ld, n.width, s)
}
