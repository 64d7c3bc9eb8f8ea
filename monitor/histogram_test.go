package monitor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCountBuckets checks that each value is counted in the bucket whose range has it.
func TestCountBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []float32{0, float32(math.Copysign(0, -1)), 1, 1.5, -1, -1.5, 1e-20, 0x1p-40, -0x1p-40, 0x1.fffffep-41, 0x1p24, -0x1p24, 3e38, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for range 10_000 {
		values = append(values, math.Float32frombits(r.Uint32()), float32(r.NormFloat64()))
	}
	const scale = 0.5
	all, sum := make([]int64, HistogramBuckets), make([]int64, HistogramBuckets)
	CountBuckets(all, values, scale)
	for _, v := range values {
		one := make([]int64, HistogramBuckets)
		CountBuckets(one, []float32{v}, scale)
		x, found := float64(v*scale), 0
		for i, n := range one {
			sum[i] += n
			if n == 0 {
				continue
			}
			found++
			if i == 0 {
				if !math.IsNaN(x) {
					t.Errorf("%v counts as NaN", x)
				}
				continue
			}
			lo, hi := Histogram{}.Range(i)
			if x = min(max(x, -0x1.8p23), 0x1.8p23); n != 1 || math.IsNaN(x) || x < lo || x > hi {
				t.Errorf("%v is counted %d times from %v to %v", x, n, lo, hi)
			}
		}
		if found != 1 {
			t.Errorf("%v is in %d buckets", x, found)
		}
	}
	for i, n := range sum {
		if all[i] != n {
			t.Errorf("bucket %d has %d of all values, %d one by one", i, all[i], n)
		}
	}
}
