//go:build !amd64 && !arm64

package kernel

import "trireme/internal/impl"

// attnOps are the inner loops of attention at one level. The specification of each is the function
// attn...Generic in attention_generic.go; levels agree up to rounding.
type attnOps impl.Level

func (attnOps) product(c []float32, ldc int, a []float32, ars, aks int, b []float32, bks, bps, m, n, k int, accumulate bool) {
	attnProductGeneric(c, ldc, a, ars, aks, b, bks, bps, m, n, k, accumulate)
}

func (attnOps) softmax(s []float32, ld, rows int, lo, hi []int32, c0, c1 int, top, sum, corr []float32) {
	attnSoftmaxGeneric(s, ld, rows, lo, hi, c0, c1, top, sum, corr)
}

func (attnOps) gradient(p, dp []float32, ld, rows int, lo, hi []int32, c0, c1 int, lse, d []float32) {
	attnGradientGeneric(p, dp, ld, rows, lo, hi, c0, c1, lse, d)
}

func (attnOps) finish(top, sum []float32, rows int) {
	attnFinishGeneric(top, sum, rows)
}

func (attnOps) scale(dst []float32, dld int, src []float32, sld, rows, cols int, f []float32, fstep int) {
	attnScaleGeneric(dst, dld, src, sld, rows, cols, f, fstep)
}

func (attnOps) transpose(dst, src []float32, sld, rows, cols int) {
	attnTransposeGeneric(dst, src, sld, rows, cols)
}

func (attnOps) dot(dst, a []float32, lda int, b []float32, ldb, rows, cols int) {
	attnDotGeneric(dst, a, lda, b, ldb, rows, cols)
}

func (attnOps) tileSoftmax(dst []uint16, panel int, s []float32, seen, kept []uint64, scale float32, top, sum, corr *[attnQueries]float32) {
	attnTileSoftmaxGeneric(dst, panel, s, seen, kept, scale, top, sum, corr)
}

func (attnOps) tileGradient(p, ds []uint16, strip int, pairs []uint16, panel int, s, dp []float32, seen, kept []uint64, scale float32, lse, d []float32) {
	attnTileGradientGeneric(p, ds, strip, pairs, panel, s, dp, seen, kept, scale, lse, d)
}

func (attnOps) dropMask(dst []uint64, words []uint32, below uint32) {
	attnDropMaskGeneric(dst, words, below)
}

func (attnOps) scaleColumns(x []float32, rows int, f *[attnQueries]float32) {
	attnScaleColumnsGeneric(x, rows, f)
}
