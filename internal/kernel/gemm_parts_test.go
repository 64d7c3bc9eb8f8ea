package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// sumOfParts computes an element as NewProduct's comment defines it.
func sumOfParts(parts Parts, a, b *testMatrix, i, j, k int) (sum float32) {
	x, y := make([][3]uint16, k), make([][3]uint16, k)
	for kk := range k {
		x[kk], y[kk] = splitFloat(a.at(i, kk)), splitFloat(b.at(kk, j))
	}
	for lo := 0; lo < k; lo += tileDepth {
		for _, p := range partProducts[parts] {
			var chain [2]float32
			for kk := lo; kk < min(lo+tileDepth, k); kk++ {
				half := (kk - lo) / 16
				chain[half] = ftz(fma32(fromBF16(x[kk][p[0]]), fromBF16(y[kk][p[1]]), chain[half]))
			}
			sum = ftz(sum + ftz(chain[0]+chain[1]))
		}
	}
	return sum
}

// TestParts compares products with the definition, in all layouts, at sizes around those of tiles and blocks.
func TestParts(t *testing.T) {
	needTiles(t)
	r := rand.New(rand.NewPCG(31, 32))
	for _, parts := range []Parts{2, 3} {
		steps, cols := parts.limits()
		for _, d := range [][3]int{
			{1, 1, 1}, {2, 3, 5}, {32, 32, 32}, {33, 31, 33}, {5, 40, 2*steps*tileDepth + 7}, {70, 3, steps*tileDepth + 1}, {3, cols + 11, 40}, {64, 96, 64}, {sumRows + 3, 5, steps*tileDepth + 32},
		} {
			for kind := range 16 {
				m, n, k := d[0], d[1], d[2]
				if m*n*k > 1<<19 && kind%5 != 0 {
					continue
				}
				gap, accumulate := r.IntN(2)*9, kind&4 != 0
				a, b := newTestMatrix(r, m, k, gap, kind&1 != 0, false), newTestMatrix(r, k, n, gap, kind&2 != 0, false)
				c := newTestMatrix(r, m, n, gap, false, kind&8 != 0)
				want := c.clone()
				for i := range m {
					for j := range n {
						sum := sumOfParts(parts, a, b, i, j, k)
						if accumulate {
							sum = c.at(i, j) + sum
						}
						if want.H != nil {
							f32ToBF16Generic(want.H[i*want.LD+j:][:1], []float32{sum})
						} else {
							want.F[i*want.LD+j] = sum
						}
					}
				}
				GemmParts(parts, c.Matrix, a.Matrix, b.Matrix, m, n, k, accumulate, make([]float32, GemmPartsScratch(parts, c.Matrix, a.Matrix, b.Matrix, m, n, k, accumulate)))
				if err := c.same(want); err != nil {
					t.Fatalf("%d parts, %v, kind %d: %v", parts, d, kind, err)
				}
			}
		}
	}
}

// TestPartsErrors: 3 parts are as near to the exact product as float32, 2 parts as TF32 or nearer.
func TestPartsErrors(t *testing.T) {
	needTiles(t)
	r := rand.New(rand.NewPCG(33, 34))
	const m, n = 40, 50
	for _, k := range []int{64, 1000, 5000} {
		a, b := newTestMatrix(r, m, k, 0, false, false), newTestMatrix(r, k, n, 0, true, false)
		c := newTestMatrix(r, m, n, 0, false, false)
		distance := func(parts Parts) (worst float64) {
			GemmParts(parts, c.Matrix, a.Matrix, b.Matrix, m, n, k, false, make([]float32, GemmPartsScratch(parts, c.Matrix, a.Matrix, b.Matrix, m, n, k, false)))
			for i := range m {
				for j := range n {
					var exact, size float64
					for kk := range k {
						p := float64(a.at(i, kk)) * float64(b.at(kk, j))
						exact, size = exact+p, size+math.Abs(p)
					}
					worst = max(worst, math.Abs(float64(c.at(i, j))-exact)/size)
				}
			}
			return worst
		}
		plain, two, three := distance(0), distance(2), distance(3)
		t.Logf("k %d: float32 %.2g, 3 parts %.2g, 2 parts %.2g of the sum of absolute products", k, plain, three, two)
		if three > 2*plain || two > 0x1p-16 {
			t.Errorf("k %d: float32 %.2g, 3 parts %.2g, 2 parts %.2g", k, plain, three, two)
		}
	}
}

// TestSplit: every version of the split has the bits of the generic one and writes nothing else, and parts sum to the number.
func TestSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	inf := float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), math.Float32frombits(0x7fffffff), math.Float32frombits(0xff800001), math.MaxFloat32, -math.MaxFloat32, 0x1p-149, 0x1p-126, 0x1.01p0, 0x1.03p0}
	impl.Each(t, func(t *testing.T) {
		for range 200 {
			parts, steps, transposed := Parts(2+r.IntN(2)), 1+r.IntN(3), r.IntN(2) == 0
			src := tileSource{make([]float32, 3000), 32 + r.IntN(20), r.IntN(500), r.IntN(300)}
			for i := range src.f {
				switch r.IntN(8) {
				case 0:
					src.f[i] = special[r.IntN(len(special))]
				case 1:
					src.f[i] = math.Float32frombits(r.Uint32())
				default:
					src.f[i] = float32(r.NormFloat64())
				}
			}
			got, want := make([]uint16, 10*tileElems), make([]uint16, 10*tileElems)
			for i := range got {
				got[i], want[i] = 0xbeef, 0xbeef
			}
			splitSteps(parts, got, src, steps, transposed)
			splitStepsGeneric(parts, want, src, steps, transposed)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%d parts, %d steps, transposed %t: element %d is %#x, want %#x", parts, steps, transposed, i, got[i], want[i])
				}
			}
		}
	})
	for range 100000 {
		x, sum := math.Float32frombits(r.Uint32()), 0.0
		for _, p := range splitFloat(x) {
			sum += float64(math.Float32frombits(uint32(p) << 16))
		}
		if a := math.Abs(float64(x)); a < 0x1.fep127 && a >= 0x1p-100 && sum != float64(x) {
			t.Fatalf("the parts of %v sum to %v", x, sum)
		}
	}
}

// TestPartsAsFloat32: float32 operands on a processor without tiles, and 16-bit ones, are multiplied by Gemm.
func TestPartsAsFloat32(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	const m, n, k = 35, 40, 70
	impl.Each(t, func(t *testing.T) {
		for _, narrow := range []bool{false, true} {
			if !narrow && impl.Tiles() {
				continue
			}
			a, b := newTestMatrix(r, m, k, 0, false, narrow), newTestMatrix(r, k, n, 0, true, false)
			c := newTestMatrix(r, m, n, 0, false, false)
			want := c.clone()
			runGemm(want, a, b, k, false)
			GemmParts(3, c.Matrix, a.Matrix, b.Matrix, m, n, k, false, make([]float32, GemmPartsScratch(3, c.Matrix, a.Matrix, b.Matrix, m, n, k, false)))
			if err := c.same(want); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkParts(b *testing.B) {
	for _, s := range []struct {
		name    string
		m, n, k int
		ta, tb  bool
	}{
		{"forward", 1024, 2304, 768, false, true}, {"input", 1024, 768, 3072, false, false}, {"weights", 3072, 768, 1024, true, false},
	} {
		for _, parts := range []Parts{0, 2, 3} {
			b.Run(fmt.Sprintf("%s/%d", s.name, parts), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				x, y := newTestMatrix(r, s.m, s.k, 0, s.ta, false), newTestMatrix(r, s.k, s.n, 0, s.tb, false)
				c := newTestMatrix(r, s.m, s.n, 0, false, false)
				scratch := make([]float32, GemmPartsScratch(parts, c.Matrix, x.Matrix, y.Matrix, s.m, s.n, s.k, false))
				b.ResetTimer()
				for range b.N {
					GemmParts(parts, c.Matrix, x.Matrix, y.Matrix, s.m, s.n, s.k, false, scratch)
				}
				b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
