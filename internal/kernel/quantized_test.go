package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/internal/impl"
)

// quantizedRows returns rows of random weights with scales, between guards, and the weights as float64.
func quantizedRows(rng *rand.Rand, rows, k int) (w []uint8, scales []float32, want []float64) {
	blocks := (k + quantBlock - 1) / quantBlock
	w, scales = make([]uint8, rows*k), make([]float32, rows*blocks)
	for i := range scales {
		scales[i] = rng.Float32() * 0.02
	}
	for i := range w {
		w[i] = uint8(rng.IntN(256))
		want = append(want, float64(int8(w[i]))*float64(scales[i/k*blocks+i%k/quantBlock]))
	}
	return w, scales, want
}

func TestMatVecQuantized(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		for _, k := range []int{0, 1, 3, 63, 64, 65, 127, 128, 192, 200, 1000} {
			for _, rows := range []int{0, 1, 2, 5, 8, 39, 600} {
				if rows == 600 && k != 65 { // whole streams and a rest
					continue
				}
				w, scales, weights := quantizedRows(rng, rows, k)
				x := make([]float32, k)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				all, y := guarded(rng, rows, 1)
				ww, ss, xx := slices.Clone(w), slices.Clone(scales), slices.Clone(x)
				MatVecQuantized(y, x, w, scales)
				checkGuards(t, "product", all, 1, rows)
				if !slices.Equal(w, ww) || !slices.Equal(scales, ss) || !slices.Equal(x, xx) {
					t.Fatalf("%d x %d: an input changed", rows, k)
				}
				blocks := len(scales) / max(1, rows)
				for n := range rows {
					alone := []float32{0}
					if MatVecQuantized(alone, x, w[n*k:][:k], scales[n*blocks:][:blocks]); alone[0] != y[n] {
						t.Fatalf("%d x %d: row %d is %v, and alone %v", rows, k, n, y[n], alone[0])
					}
					sum, size := 0.0, 0.0
					for i, v := range weights[n*k:][:k] {
						sum += v * float64(x[i])
						size += math.Abs(v * float64(x[i]))
					}
					if d := math.Abs(float64(y[n]) - sum); !(d <= 1e-6*size) {
						t.Fatalf("%d x %d: row %d is %v, want %v", rows, k, n, y[n], sum)
					}
				}
			}
		}
	})
}

// A NaN or an infinity reaches the sum, wherever it is.
func TestMatVecQuantizedSpecialValues(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		const k = 130
		w := slices.Repeat([]uint8{1}, k)
		for i := range k {
			x, scales, y := slices.Repeat([]float32{1}, k), []float32{1, 1, 1}, []float32{0}
			x[i] = float32(math.Inf(1))
			if MatVecQuantized(y, x, w, scales); !math.IsInf(float64(y[0]), 1) {
				t.Fatalf("the sum with an infinity at %d is %v", i, y[0])
			}
			x[i], scales[i/quantBlock] = 1, float32(math.NaN())
			if MatVecQuantized(y, x, w, scales); y[0] == y[0] {
				t.Fatalf("the sum with a NaN scale at %d is %v", i/quantBlock, y[0])
			}
		}
	})
}

func TestDequantize(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, k := range []int{0, 1, 63, 64, 65, 128, 200} {
			w, scales, want := quantizedRows(rng, 1, k)
			all, got := guarded(rng, k, 3)
			Dequantize(got, w, scales)
			checkGuards(t, "weights", all, 3, k)
			for i := range got {
				if got[i] != float32(want[i]) {
					t.Fatalf("weight %d of %d is %v, want %v", i, k, got[i], want[i])
				}
			}
		}
	})
}

func BenchmarkMatVecQuantized(b *testing.B) {
	const rows, k = 4864, 896
	w, scales, _ := quantizedRows(rand.New(rand.NewPCG(1, 2)), rows, k)
	x, y := make([]float32, k), make([]float32, rows)
	impl.Each(b, func(b *testing.B) {
		b.SetBytes(rows * k)
		for b.Loop() {
			MatVecQuantized(y, x, w, scales)
		}
	})
}
