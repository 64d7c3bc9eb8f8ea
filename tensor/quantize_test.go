package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A weight is within half a step of its block, a step being 1/127 of the largest magnitude, and the largest is exact up
// to rounding.
func TestQuantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int{1, 63, 64, 65, 200} {
		for _, size := range []float64{1e-30, 0.02, 1, 1e30} {
			const rows = 3
			x, w := make([]float32, rows*width), make([]uint8, rows*width)
			scales := make([]float32, rows*QuantBlocks(width))
			for i := range x {
				x[i] = float32(rng.NormFloat64() * size)
			}
			Quantize(w, scales, x, width)
			for i, v := range x {
				row, column := i/width, i%width
				scale := float64(scales[row*QuantBlocks(width)+column/QuantBlock])
				if got := float64(int8(w[i])) * scale; math.Abs(got-float64(v)) > 0.5001*scale {
					t.Fatalf("width %d: weight %d of row %d is %v, want %v within half of %v", width, column, row, got, v, scale)
				}
			}
			for r := range rows {
				for b := range QuantBlocks(width) {
					top := 0
					for _, q := range w[r*width+b*QuantBlock : r*width+min(width, (b+1)*QuantBlock)] {
						top = max(top, int(int8(q)), -int(int8(q)))
					}
					if top != 127 {
						t.Fatalf("width %d: the largest weight of block %d is %d, want 127", width, b, top)
					}
				}
			}
		}
	}
}

func TestQuantizeSpecialValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		x     []float32
		scale float32
	}{
		{[]float32{0, 0}, 0}, {[]float32{0x1p-140, -0x1p-120}, 0}, {[]float32{1, inf}, nan}, {[]float32{-inf, 0}, nan}, {[]float32{nan, 2}, nan},
		{[]float32{math.MaxFloat32, -math.MaxFloat32}, math.MaxFloat32 / 127},
	} {
		w, scales := []uint8{9, 9}, []float32{9}
		Quantize(w, scales, c.x, 2)
		for i := range w {
			got, want := float32(int8(w[i]))*scales[0], float32(int8(w[i]))*c.scale
			if got != want && (got == got || want == want) {
				t.Errorf("%v: weight %d is %d of scale %v, want scale %v", c.x, i, w[i], scales[0], c.scale)
			}
		}
	}
}
