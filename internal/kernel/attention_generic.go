package kernel

import "math"

// attnProductGeneric computes c [m n] = a [m k] b [k n], or += with accumulate; m is a multiple of 8
// and n of 16. Element (i,l) of a is at i*ars+l*aks, element (l,j) of b at j/32*bps + l*bks + j%32.
func attnProductGeneric(c []float32, ldc int, a []float32, ars, aks int, b []float32, bks, bps, m, n, k int, accumulate bool) {
	for j := 0; j < n; j += 4 {
		for i := 0; i < m; i += 2 { // two rows of four sums stay in registers
			var r0, r1, r2, r3, s0, s1, s2, s3 float32
			at, bt := i*ars, j/attnPanel*bps+j%attnPanel
			for range k {
				x, y, row := a[at], a[at+ars], b[bt:bt+4:bt+4]
				r0 += x * row[0]
				r1 += x * row[1]
				r2 += x * row[2]
				r3 += x * row[3]
				s0 += y * row[0]
				s1 += y * row[1]
				s2 += y * row[2]
				s3 += y * row[3]
				at += aks
				bt += bks
			}
			r, s := c[i*ldc+j:][:4], c[(i+1)*ldc+j:][:4]
			if accumulate {
				r0, r1, r2, r3 = r0+r[0], r1+r[1], r2+r[2], r3+r[3]
				s0, s1, s2, s3 = s0+s[0], s1+s[1], s2+s[2], s3+s[3]
			}
			r[0], r[1], r[2], r[3] = r0, r1, r2, r3
			s[0], s[1], s[2], s[3] = s0, s1, s2, s3
		}
	}
}

// attnSoftmaxGeneric replaces base-2 scores by 2^(s-max) inside columns [lo,hi) of each row, and by 0
// in the rest of [c0,c1). top and sum are the running maximum and sum of the row; corr is the factor
// for earlier results of the row. c0 and c1 are multiples of 16. The rows in memory are padded to a
// multiple of 4; the padding sees nothing.
func attnSoftmaxGeneric(s []float32, ld, rows int, lo, hi []int32, c0, c1 int, top, sum, corr []float32) {
	for r := range rows {
		row := s[r*ld:]
		seen := row[lo[r]:hi[r]]
		m := top[r]
		for _, x := range seen {
			if x > m {
				m = x
			}
		}
		base := m
		if base == attnNegInf { // nothing visible so far
			base = 0
		}
		corr[r] = exp2(top[r] - base)
		var t float32
		for j, x := range seen {
			p := exp2(x - base)
			seen[j] = p
			t += p
		}
		top[r], sum[r] = m, sum[r]*corr[r]+t
		clearOutside(row, int(lo[r]), int(hi[r]), c0, c1)
	}
}

// clearOutside clears columns [c0,c1) of a row outside [lo,hi).
func clearOutside(row []float32, lo, hi, c0, c1 int) {
	if lo >= hi {
		lo, hi = c1, c1
	}
	clear(row[c0:lo])
	clear(row[hi:c1])
}

// attnGradientGeneric replaces scores p by 2^(p-lse) and dp by p*(dp-d) inside [lo,hi) of each row,
// and both by 0 in the rest of [c0,c1).
func attnGradientGeneric(p, dp []float32, ld, rows int, lo, hi []int32, c0, c1 int, lse, d []float32) {
	for r := range rows {
		pr, dr := p[r*ld:], dp[r*ld:]
		for j := lo[r]; j < hi[r]; j++ {
			x := exp2(pr[j] - lse[r])
			pr[j] = x
			dr[j] = x * (dr[j] - d[r])
		}
		clearOutside(pr, int(lo[r]), int(hi[r]), c0, c1)
		clearOutside(dr, int(lo[r]), int(hi[r]), c0, c1)
	}
}

// attnFinishGeneric replaces base-2 maxima and sums of a softmax, for a multiple of 16 rows, by
// natural log-sum-exps (in top) and reciprocals of the sums, or by 0 where the sum is 0.
func attnFinishGeneric(top, sum []float32, rows int) {
	for r := range rows {
		if sum[r] == 0 {
			top[r] = 0
			continue
		}
		top[r] = (top[r] + float32(math.Log2(float64(sum[r])))) * math.Ln2
		sum[r] = 1 / sum[r]
	}
}

// attnScaleGeneric sets dst [rows cols] = src * f[row*fstep].
func attnScaleGeneric(dst []float32, dld int, src []float32, sld, rows, cols int, f []float32, fstep int) {
	for i := range rows {
		d, s, x := dst[i*dld:][:cols], src[i*sld:][:cols], f[i*fstep]
		for j := range d {
			d[j] = s[j] * x
		}
	}
}

// attnTransposeGeneric packs src [rows cols] in panels of 32 rows: element (i,l) goes to
// i/32*32*cols + l*32 + i%32.
func attnTransposeGeneric(dst, src []float32, sld, rows, cols int) {
	attnTransposeRest(dst, src, sld, 0, rows, 0, cols)
}

// attnTransposePanels is attnTransposeGeneric by the current version of transpose.
func attnTransposePanels(dst, src []float32, sld, rows, cols int) {
	for i := 0; i < rows; i += attnPanel {
		transpose(dst[i*cols:], attnPanel, src[i*sld:], sld, min(attnPanel, rows-i), cols)
	}
}

// attnTransposeRest transposes rows [i0,i1) from column c0 on.
func attnTransposeRest(dst, src []float32, sld, i0, i1, c0, cols int) {
	for i := i0; i < i1; i++ {
		d := dst[i/attnPanel*attnPanel*cols+i%attnPanel:]
		row := src[i*sld:][:cols]
		for l := c0; l < cols; l++ {
			d[l*attnPanel] = row[l]
		}
	}
}

// attnDotGeneric sets dst[i] to the sum over columns of a[i]*b[i].
func attnDotGeneric(dst, a []float32, lda int, b []float32, ldb, rows, cols int) {
	for i := range rows {
		var sum float32
		y := b[i*ldb:][:cols]
		for j, x := range a[i*lda:][:cols] {
			sum += x * y[j]
		}
		dst[i] = sum
	}
}

// 2^f on [0,1): a polynomial of degree 6 through 1 at 0, with relative error below 2.8e-9.
const (
	exp2C1 = 0x1.62e42ep-01
	exp2C2 = 0x1.ebfcd2p-03
	exp2C3 = 0x1.c6929ep-05
	exp2C4 = 0x1.3cbf84p-07
	exp2C5 = 0x1.48fd10p-10
	exp2C6 = 0x1.bf73eap-13
)

// exp2 returns 2^x to 2 ulp for normal results; 2^-Inf is 0, and NaN stays NaN.
func exp2(x float32) float32 {
	if !(x > -150) {
		if x != x {
			return x
		}
		return 0
	}
	if x >= 128 {
		return float32(math.Inf(1))
	}
	n := int(x)
	if x < float32(n) {
		n--
	}
	f := x - float32(n)
	p := exp2C5 + f*exp2C6
	p = exp2C4 + f*p
	p = exp2C3 + f*p
	p = exp2C2 + f*p
	p = exp2C1 + f*p
	p = 1 + f*p
	if n < -126 { // the result is subnormal
		return p * math.Float32frombits(uint32(n+64+127)<<23) * 0x1p-64
	}
	return p * math.Float32frombits(uint32(n+127)<<23)
}
