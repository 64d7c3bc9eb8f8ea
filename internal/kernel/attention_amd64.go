package kernel

import "trireme/internal/impl"

//go:generate go -C _asm run ./attention -out ../attention_amd64.s -stubs ../attention_stubs_amd64.go -pkg kernel

// attentionOps is the variant that impl.Current names.
func attentionOps() *attnOps {
	if impl.Current() == impl.AVX512 {
		return &attnAVX512
	}
	return &attnGeneric
}

func attnInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

var attnAVX512 = attnOps{
	product: func(c []float32, ldc int, a []float32, ars, aks int, b []float32, bks, bps, m, n, k int, accumulate bool) {
		attnProductAVX512(&c[0], ldc, &a[0], ars, aks, &b[0], bks, bps, m, n, k, attnInt(accumulate))
	},
	softmax: func(s []float32, ld, rows int, lo, hi []int32, c0, c1 int, top, sum, corr []float32) {
		attnSoftmaxAVX512(&s[0], ld, rows, &lo[0], &hi[0], c0, c1, &top[0], &sum[0], &corr[0])
	},
	gradient: func(p, dp []float32, ld, rows int, lo, hi []int32, c0, c1 int, lse, d []float32) {
		attnGradientAVX512(&p[0], &dp[0], ld, rows, &lo[0], &hi[0], c0, c1, &lse[0], &d[0])
	},
	scale: func(dst []float32, dld int, src []float32, sld, rows, cols int, f []float32, fstep int) {
		attnScaleAVX512(&dst[0], dld, &src[0], sld, rows, cols, &f[0], fstep)
	},
	transpose: func(dst, src []float32, sld, rows, cols int) {
		whole, wcols := rows&^15, cols&^15
		if whole == 0 || wcols == 0 {
			attnTransposeGeneric(dst, src, sld, rows, cols)
			return
		}
		attnTransposeAVX512(&dst[0], &src[0], sld, whole, wcols, cols)
		attnTransposeRest(dst, src, sld, 0, whole, wcols, cols)
		attnTransposeRest(dst, src, sld, whole, rows, 0, cols)
	},
	dot: func(dst, a []float32, lda int, b []float32, ldb, rows, cols int) {
		attnDotAVX512(&dst[0], &a[0], lda, &b[0], ldb, rows, cols)
	},
}
