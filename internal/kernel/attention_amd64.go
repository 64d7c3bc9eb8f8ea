package kernel

import (
	"unsafe"

	"trireme/internal/impl"
)

//go:generate go -C _asm run ./attention -out ../attention_amd64.s -stubs ../attention_stubs_amd64.go -pkg kernel

// attnOps are the inner loops of attention at one level. The specification of each is the function
// attn...Generic in attention_generic.go; levels agree up to rounding.
type attnOps impl.Level

func (l attnOps) product(c []float32, ldc int, a []float32, ars, aks int, b []float32, bks, bps, m, n, k int, accumulate bool) {
	switch impl.Level(l) {
	case impl.AVX512:
		attnProductAVX512(&c[0], ldc, &a[0], ars, aks, &b[0], bks, bps, m, n, k, attnInt(accumulate))
	case impl.AVX2:
		attnProductAVX2(&c[0], ldc, &a[0], ars, aks, &b[0], bks, bps, m, n, k, attnInt(accumulate))
	default:
		attnProductGeneric(c, ldc, a, ars, aks, b, bks, bps, m, n, k, accumulate)
	}
}

func (l attnOps) softmax(s []float32, ld, rows int, lo, hi []int32, c0, c1 int, top, sum, corr []float32) {
	switch impl.Level(l) {
	case impl.AVX512:
		attnSoftmaxAVX512(&s[0], ld, rows, &lo[0], &hi[0], c0, c1, &top[0], &sum[0], &corr[0])
	case impl.AVX2:
		attnSoftmaxAVX2(&s[0], ld, rows, &lo[0], &hi[0], c0, c1, &top[0], &sum[0], &corr[0])
	default:
		attnSoftmaxGeneric(s, ld, rows, lo, hi, c0, c1, top, sum, corr)
	}
}

func (l attnOps) gradient(p, dp []float32, ld, rows int, lo, hi []int32, c0, c1 int, lse, d []float32) {
	switch impl.Level(l) {
	case impl.AVX512:
		attnGradientAVX512(&p[0], &dp[0], ld, rows, &lo[0], &hi[0], c0, c1, &lse[0], &d[0])
	case impl.AVX2:
		attnGradientAVX2(&p[0], &dp[0], ld, rows, &lo[0], &hi[0], c0, c1, &lse[0], &d[0])
	default:
		attnGradientGeneric(p, dp, ld, rows, lo, hi, c0, c1, lse, d)
	}
}

func (l attnOps) finish(top, sum []float32, rows int) {
	if l == attnOps(impl.AVX512) {
		attnFinishAVX512(&top[0], &sum[0], rows)
		return
	}
	attnFinishGeneric(top, sum, rows)
}

func (l attnOps) scale(dst []float32, dld int, src []float32, sld, rows, cols int, f []float32, fstep int) {
	switch impl.Level(l) {
	case impl.AVX512:
		attnScaleAVX512(&dst[0], dld, &src[0], sld, rows, cols, &f[0], fstep)
		return
	case impl.AVX2:
		if whole := cols &^ 7; whole > 0 {
			attnScaleAVX2(&dst[0], dld, &src[0], sld, rows, whole, &f[0], fstep)
			if whole == cols {
				return
			}
			dst, src, cols = dst[whole:], src[whole:], cols-whole
		}
	}
	attnScaleGeneric(dst, dld, src, sld, rows, cols, f, fstep)
}

func (l attnOps) transpose(dst, src []float32, sld, rows, cols int) {
	whole, wcols := rows&^15, cols&^15
	switch {
	case l == attnOps(impl.AVX2):
		attnTransposePanels(dst, src, sld, rows, cols)
	case l == attnOps(impl.AVX512) && whole > 0 && wcols > 0:
		attnTransposeAVX512(&dst[0], &src[0], sld, whole, wcols, cols)
		attnTransposeRest(dst, src, sld, 0, whole, wcols, cols)
		attnTransposeRest(dst, src, sld, whole, rows, 0, cols)
	default:
		attnTransposeGeneric(dst, src, sld, rows, cols)
	}
}

func (l attnOps) dot(dst, a []float32, lda int, b []float32, ldb, rows, cols int) {
	switch {
	case l == attnOps(impl.AVX512):
		attnDotAVX512(&dst[0], &a[0], lda, &b[0], ldb, rows, cols)
	case l == attnOps(impl.AVX2) && cols%8 == 0:
		attnDotAVX2(&dst[0], &a[0], lda, &b[0], ldb, rows, cols)
	default:
		attnDotGeneric(dst, a, lda, b, ldb, rows, cols)
	}
}

func (l attnOps) tileSoftmax(dst []uint16, panel int, s []float32, seen, kept []uint64, scale float32, top, sum, corr *[attnQueries]float32) {
	if l == attnOps(impl.AVX512) {
		keys := len(seen)
		_, _, _ = dst[panel+keys/tileDepth*tileElems-1], s[keys*attnQueries-1], kept[keys-1]
		attnTileSoftmaxAVX512(&dst[0], panel, &s[0], keys, &seen[0], &kept[0], scale, &top[0], &sum[0], &corr[0])
		return
	}
	attnTileSoftmaxGeneric(dst, panel, s, seen, kept, scale, top, sum, corr)
}

func (l attnOps) tileGradient(p, ds []uint16, strip int, pairs []uint16, panel int, s, dp []float32, seen, kept []uint64, scale float32, lse, d []float32) {
	if l == attnOps(impl.AVX512) {
		keys := len(seen)
		last := (keys/tileDepth-1)*strip + 2*tileElems - 1
		_, _, _ = p[last], ds[last], pairs[panel+keys/tileDepth*tileElems-1]
		_, _, _ = s[keys*attnQueries-1], dp[keys*attnQueries-1], kept[keys-1]
		_, _ = lse[attnQueries-1], d[attnQueries-1]
		attnTileGradientAVX512(&p[0], &ds[0], strip, &pairs[0], panel, &s[0], &dp[0], keys, &seen[0], &kept[0], scale, &lse[0], &d[0])
		return
	}
	attnTileGradientGeneric(p, ds, strip, pairs, panel, s, dp, seen, kept, scale, lse, d)
}

func (l attnOps) dropMask(dst []uint64, words []uint32, below uint32) {
	if l == attnOps(impl.AVX512) {
		if whole := len(words) &^ 63; whole > 0 {
			_ = dst[whole/64-1]
			attnDropMaskAVX512((*uint16)(unsafe.Pointer(&dst[0])), &words[0], whole/16, below)
			dst, words = dst[whole/64:], words[whole:]
		}
	}
	attnDropMaskGeneric(dst, words, below)
}

func (l attnOps) scaleColumns(x []float32, rows int, f *[attnQueries]float32) {
	if l == attnOps(impl.AVX512) {
		_ = x[rows*attnQueries-1]
		attnScaleColumnsAVX512(&x[0], rows, &f[0])
		return
	}
	attnScaleColumnsGeneric(x, rows, f)
}

func attnInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
