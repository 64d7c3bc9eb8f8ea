package kernel

import "trireme/internal/impl"

// attnOps are the inner loops of attention at one level. The specification of each is the function
// attn...Generic in attention_generic.go; levels agree up to rounding.
type attnOps impl.Level

func (l attnOps) product(c []float32, ldc int, a []float32, ars, aks int, b []float32, bks, bps, m, n, k int, accumulate bool) {
	if l != attnOps(impl.NEON) || m == 0 || n == 0 || k == 0 {
		attnProductGeneric(c, ldc, a, ars, aks, b, bks, bps, m, n, k, accumulate)
		return
	}
	add := 0
	if accumulate {
		add = 1
	}
	attnProductNEON(&c[0], ldc, &a[0], ars, aks, &b[0], bks, bps, m, n, k, add)
}

func (l attnOps) softmax(s []float32, ld, rows int, lo, hi []int32, c0, c1 int, top, sum, corr []float32) {
	if l != attnOps(impl.NEON) {
		attnSoftmaxGeneric(s, ld, rows, lo, hi, c0, c1, top, sum, corr)
		return
	}
	for r := range rows {
		row := s[r*ld:]
		seen := row[lo[r]:max(lo[r], hi[r])]
		m := max(top[r], maximumNEON(seen))
		base := m
		if base == attnNegInf { // nothing visible so far
			base = 0
		}
		corr[r] = exp2(top[r] - base)
		top[r], sum[r] = m, sum[r]*corr[r]+attnSoftmaxNEON(seen, base)
		clearOutside(row, int(lo[r]), int(hi[r]), c0, c1)
	}
}

func (l attnOps) gradient(p, dp []float32, ld, rows int, lo, hi []int32, c0, c1 int, lse, d []float32) {
	if l != attnOps(impl.NEON) {
		attnGradientGeneric(p, dp, ld, rows, lo, hi, c0, c1, lse, d)
		return
	}
	for r := range rows {
		pr, dr := p[r*ld:], dp[r*ld:]
		first, last := lo[r], max(lo[r], hi[r])
		attnGradientNEON(pr[first:last], dr[first:last], lse[r], d[r])
		clearOutside(pr, int(first), int(last), c0, c1)
		clearOutside(dr, int(first), int(last), c0, c1)
	}
}

func (attnOps) finish(top, sum []float32, rows int) {
	attnFinishGeneric(top, sum, rows)
}

func (l attnOps) scale(dst []float32, dld int, src []float32, sld, rows, cols int, f []float32, fstep int) {
	if l != attnOps(impl.NEON) {
		attnScaleGeneric(dst, dld, src, sld, rows, cols, f, fstep)
		return
	}
	for i := range rows {
		attnScaleNEON(dst[i*dld:][:cols], src[i*sld:][:cols], f[i*fstep])
	}
}

func (l attnOps) transpose(dst, src []float32, sld, rows, cols int) {
	if l == attnOps(impl.NEON) {
		attnTransposePanels(dst, src, sld, rows, cols)
		return
	}
	attnTransposeGeneric(dst, src, sld, rows, cols)
}

func (l attnOps) dot(dst, a []float32, lda int, b []float32, ldb, rows, cols int) {
	if l != attnOps(impl.NEON) {
		attnDotGeneric(dst, a, lda, b, ldb, rows, cols)
		return
	}
	for i := range rows {
		dst[i] = attnDotNEON(a[i*lda:][:cols], b[i*ldb:][:cols])
	}
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
