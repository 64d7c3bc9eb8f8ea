package cpu

import (
	"math"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// HeadRMSNorm is RMSNorm per head, with one gain.
func (b *Backend) HeadRMSNorm(y, rstd, x, w *tensor.Tensor, headDim int, eps float64) {
	n := b.newUnitNorm("head rms norm", headDim, y, x, w, nil)
	n.statistics(nil, rstd)
	defer n.scratch().release()
	heads := n.units()
	n.run(func(r, thread int) {
		in := n.input(r, thread)
		out := n.y.dest(r*n.y.ld, n.width, n.tmp.row(thread, 1))
		for h := range heads {
			head := in[h*headDim:][:headDim]
			s := float32(1 / math.Sqrt(kernel.Squares(head)/float64(headDim)+eps))
			n.rstd[r*heads+h] = s
			kernel.RMSScale(out[h*headDim:][:headDim], head, n.w, s)
		}
		n.y.store(r*n.y.ld, out)
	})
}

// HeadRMSNormBackward sums a block's rows and heads in order.
func (b *Backend) HeadRMSNormBackward(dx, dw, dy, x, rstd, w *tensor.Tensor, headDim int, accumulate bool) {
	g := b.newNormGrad("head rms norm backward", headDim, dx, dy, nil, x, w)
	defer g.release()
	s, heads := g.n.column(rstd), g.n.units()
	g.run(1, func(r int, dx, dy, _, x, dw, _ []float32) {
		for h := range heads {
			lo, hi, s := h*headDim, (h+1)*headDim, s[r*heads+h]
			k := float32(kernel.Dot3(dy[lo:hi], g.n.w, x[lo:hi]) / float64(headDim) * cube(s))
			kernel.RMSGradient(dx[lo:hi], dw, dy[lo:hi], nil, x[lo:hi], g.n.w, s, k)
		}
	})
	g.finish(0, dw, accumulate)
}
