package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// eachAttnLevel runs f with the inner loops of every level except the specification.
func eachAttnLevel(t *testing.T, f func(t *testing.T, ops attnOps)) {
	impl.Each(t, func(t *testing.T) {
		if impl.Current() != impl.Generic {
			f(t, attnOps(impl.Current()))
		}
	})
}

func attnRandom(r *rand.Rand, n int, scale float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = scale * float32(r.NormFloat64())
	}
	return x
}

func attnClone(x []float32) []float32 { return append([]float32(nil), x...) }

// attnClose compares all of two buffers, including the surroundings of a result.
func attnClose(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		if !(math.Abs(g-w) <= tol*(1+math.Abs(w))) {
			t.Fatalf("%s[%d] = %g, want %g", what, i, g, w)
		}
	}
}

func TestAttentionProduct(t *testing.T) {
	eachAttnLevel(t, func(t *testing.T, ops attnOps) {
		r := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			m, n, k := 8*(1+r.IntN(8)), 16*(1+r.IntN(6)), r.IntN(70)
			lda, ldc := k+r.IntN(9), n+r.IntN(40)
			ars, aks := lda, 1
			if r.IntN(2) == 0 {
				lda = m + r.IntN(9)
				ars, aks = 1, lda
			}
			a := attnRandom(r, m*k+(m+k)*9+1, 1)
			bks, bps := attnPanel, attnPanel*k
			if r.IntN(2) == 0 {
				bks, bps = roundUp(n, attnPanel), attnPanel
			}
			b := attnRandom(r, roundUp(n, attnPanel)*k+n+1, 1)
			c := attnRandom(r, m*ldc+50, 1)
			want := attnClone(c)
			accumulate := r.IntN(2) == 0
			attnProductGeneric(want, ldc, a, ars, aks, b, bks, bps, m, n, k, accumulate)
			ops.product(c, ldc, a, ars, aks, b, bks, bps, m, n, k, accumulate)
			attnClose(t, "c", c, want, 1e-5)
		}
	})
}

// attnRanges returns random column ranges per row, some empty, and their union.
func attnRanges(r *rand.Rand, rows, ld int) (lo, hi []int32, c0, c1 int) {
	lo, hi = make([]int32, attnQueries), make([]int32, attnQueries)
	c0, c1 = ld-16, 0
	for i := range rows {
		a, b := r.IntN(ld-15), r.IntN(ld-15)
		if a >= b {
			continue
		}
		lo[i], hi[i] = int32(a), int32(b)
		c0, c1 = min(c0, a&^15), max(c1, roundUp(b, 16))
	}
	return lo, hi, min(c0, c1), c1
}

func TestAttentionSoftmaxAndGradient(t *testing.T) {
	eachAttnLevel(t, func(t *testing.T, ops attnOps) {
		r := rand.New(rand.NewPCG(2, 2))
		for n := range 200 {
			rows, ld := 1+r.IntN(attnQueries), 16*(2+r.IntN(8))
			lo, hi, c0, c1 := attnRanges(r, rows, ld)
			s := attnRandom(r, attnQueries*ld, 20)
			if n%3 == 0 {
				s[r.IntN(len(s))] = attnNegInf
				s[r.IntN(len(s))] = float32(math.NaN())
			}
			dp := attnRandom(r, len(s), 1)
			p, dq := attnClone(s), attnClone(dp)
			lse, d := attnRandom(r, attnQueries, 1), attnRandom(r, attnQueries, 1)
			for i := range lse {
				lse[i] += 60
			}
			got, want := attnClone(s), attnClone(s)
			top, sum, corr := attnRandom(r, attnQueries, 20), attnRandom(r, attnQueries, 1), make([]float32, attnQueries)
			for i := range top {
				if r.IntN(2) == 0 {
					top[i], sum[i] = attnNegInf, 0
				}
			}
			wtop, wsum, wcorr := attnClone(top), attnClone(sum), attnClone(corr)
			attnSoftmaxGeneric(want, ld, rows, lo, hi, c0, c1, wtop, wsum, wcorr)
			ops.softmax(got, ld, rows, lo, hi, c0, c1, top, sum, corr)
			for i := range rows {
				bad := false // the maximum of a row with NaN is undefined
				for _, x := range s[i*ld:][lo[i]:max(lo[i], hi[i])] {
					bad = bad || x != x
				}
				if bad {
					if wsum[i] == wsum[i] || sum[i] == sum[i] {
						t.Fatalf("row %d lost its NaN", i)
					}
					continue
				}
				attnClose(t, "p", got[i*ld:(i+1)*ld], want[i*ld:(i+1)*ld], 3e-7)
				attnClose(t, "top", top[i:i+1], wtop[i:i+1], 0)
				attnClose(t, "sum", sum[i:i+1], wsum[i:i+1], 1e-6)
				if wsum[i] != 0 && lo[i] < hi[i] {
					attnClose(t, "corr", corr[i:i+1], wcorr[i:i+1], 3e-7)
				}
			}
			attnClose(t, "rest", got[roundUp(rows, 4)*ld:], s[roundUp(rows, 4)*ld:], 0)

			wp, wdp := attnClone(p), attnClone(dq)
			attnGradientGeneric(wp, wdp, ld, rows, lo, hi, c0, c1, lse, d)
			ops.gradient(p, dq, ld, rows, lo, hi, c0, c1, lse, d)
			attnClose(t, "p", p[:rows*ld], wp[:rows*ld], 1e-6)
			attnClose(t, "dp", dq[:rows*ld], wdp[:rows*ld], 1e-6)
		}
	})
}

func TestAttentionRowLoops(t *testing.T) {
	eachAttnLevel(t, func(t *testing.T, ops attnOps) {
		r := rand.New(rand.NewPCG(3, 3))
		for range 200 {
			rows, cols := 1+r.IntN(70), 1+r.IntN(70)
			ld, dld := cols+r.IntN(20), cols+r.IntN(20)
			src, other := attnRandom(r, rows*ld, 1), attnRandom(r, rows*dld, 1)
			f := attnRandom(r, rows, 1)
			got := attnRandom(r, rows*dld+20, 1)
			want := attnClone(got)
			step := r.IntN(2)
			attnScaleGeneric(want, dld, src, ld, rows, cols, f, step)
			ops.scale(got, dld, src, ld, rows, cols, f, step)
			attnClose(t, "scale", got, want, 0)

			got = attnRandom(r, roundUp(rows, attnPanel)*cols+40, 1)
			want = attnClone(got)
			attnTransposeGeneric(want, src, ld, rows, cols)
			ops.transpose(got, src, ld, rows, cols)
			attnClose(t, "transpose", got, want, 0)

			got, want = attnClone(f), attnClone(f)
			attnDotGeneric(want, src, ld, other, dld, rows, cols)
			ops.dot(got, src, ld, other, dld, rows, cols)
			attnClose(t, "dot", got, want, 1e-5)

			top, sum := attnRandom(r, 64, 9), attnRandom(r, 64, 400)
			for i := range sum {
				sum[i] = float32(math.Abs(float64(sum[i]))) + 1
			}
			sum[5], top[5], sum[20] = 0, attnNegInf, float32(math.NaN())
			wtop, wsum := attnClone(top), attnClone(sum)
			attnFinishGeneric(wtop, wsum, 64)
			ops.finish(top, sum, 64)
			attnClose(t, "lse", top, wtop, 2e-6) // terms of about 9 may cancel
			attnClose(t, "1/sum", sum, wsum, 1e-7)
		}
	})
}

// exp2 is accurate to 2 ulp for normal results, and below the smallest normal number otherwise.
func TestAttentionExp2(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		ops := attnOps(impl.Current())
		const n = 512
		lo, hi := make([]int32, attnQueries), make([]int32, attnQueries)
		lo[0], hi[0] = 0, n
		p, dp := make([]float32, 4*n), make([]float32, 4*n)
		zero := make([]float32, attnQueries)
		for base := float32(-160); base < 8; base += 0.5 {
			for i := range n {
				p[i] = base + float32(i)/1024
			}
			x := attnClone(p)
			ops.gradient(p, dp, n, 1, lo, hi, 0, n, zero, zero)
			for i := range n {
				got, want := float64(p[i]), math.Exp2(float64(x[i]))
				if tol := max(2*0x1p-23*want, 0x1p-126); want >= 0x1p-126 && math.Abs(got-want) > 2*0x1p-23*want || math.Abs(got-want) > tol {
					t.Fatalf("2^%g = %g, want %g", x[i], got, want)
				}
			}
		}
		p[0], p[1] = attnNegInf, float32(math.NaN())
		ops.gradient(p, dp, n, 1, lo, hi, 0, n, zero, zero)
		if p[0] != 0 || p[1] == p[1] {
			t.Fatalf("2^-Inf = %g, 2^NaN = %g", p[0], p[1])
		}
	})
}
