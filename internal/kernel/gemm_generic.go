package kernel

import "math"

// genericShape suits Go: the sums of a tile fit into a small array.
var genericShape = gemmShape{mr: 4, nr: 8, kc: 256, nc: 256}

// tileGeneric computes up to 4 rows and 8 columns, and returns the number of rows.
func tileGeneric(t *gemmTile, rows int) int {
	rows = min(rows, genericShape.mr)
	nr := genericShape.nr
	for r := range rows {
		var sum [8]float32
		if t.in != nil {
			copy(sum[:], t.in[r*t.ldin:][:t.cols])
		}
		for kk := range t.k {
			x := t.a[r*t.si+kk*t.sk]
			for j, y := range t.b[kk*nr:][:t.cols] {
				sum[j] = fma32(x, y, sum[j])
			}
		}
		out := t.out[r*t.ldout:][:t.cols]
		for j := range out {
			if t.add {
				sum[j] = out[j] + sum[j]
			}
			out[j] = sum[j]
		}
	}
	return rows
}

// fma32 returns x*y+z rounded once. The product of two float32 is exact in float64. Rounding the
// sum to float64 first errs only if that is half-way between two float32 (Boldo and Melquiond
// 2008); then the rounding error decides.
func fma32(x, y, z float32) float32 {
	p := float64(x) * float64(y)
	s := p + float64(z)
	u := math.Float64bits(s)
	if u&(1<<29-1) != 1<<28 && math.Abs(s) >= 0x1p-126 {
		return float32(s)
	}
	// Making an inexact s odd keeps the direction of its error for the second rounding.
	b := s - p
	e := (p - (s - b)) + (float64(z) - b)
	if e != 0 && u&1 == 0 {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
		s = math.Float64frombits(u)
	}
	return float32(s)
}
