package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// sumOfParts computes an element from GemmParts' definition.
func sumOfParts(parts Parts, a, b *testMatrix, i, j, k int) (sum float32) {
	split := func(x float32) (p [3]uint16) {
		splitGeneric(p[:], 1, 1, []float32{x}, 1, 1, 1)
		return p
	}
	x, y := make([][3]uint16, k), make([][3]uint16, k)
	for kk := range k {
		x[kk], y[kk] = split(a.at(i, kk)), split(b.at(kk, j))
	}
	for lo := 0; lo < k; lo += tileDepth {
		for _, p := range partProducts[parts] {
			var chain [2]float32
			for kk := lo; kk < min(lo+tileDepth, k); kk++ {
				chain[kk&1] = ftz(fma32(ftz(fromBF16(x[kk][p[0]])), ftz(fromBF16(y[kk][p[1]])), chain[kk&1]))
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
				GemmParts(parts, c.Matrix, a.Matrix, b.Matrix, m, n, k, accumulate, make([]float32, GemmPartsScratch(parts, m, n, k)))
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
			GemmParts(parts, c.Matrix, a.Matrix, b.Matrix, m, n, k, false, make([]float32, GemmPartsScratch(parts, m, n, k)))
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

// TestSplit: every version of the split has the bits of the generic one, and parts sum to the number.
func TestSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	inf := float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), math.Float32frombits(0x7fffffff), math.Float32frombits(0xff800001), math.MaxFloat32, -math.MaxFloat32, 0x1p-149, 0x1p-126}
	impl.Each(t, func(t *testing.T) {
		for range 200 {
			rows, cols := 1+r.IntN(5), 1+r.IntN(70)
			ldd, lds := roundUp(cols, 16), cols+r.IntN(9)
			src := make([]float32, rows*lds)
			for i := range src {
				switch r.IntN(8) {
				case 0:
					src[i] = special[r.IntN(len(special))]
				case 1:
					src[i] = math.Float32frombits(r.Uint32())
				default:
					src[i] = float32(r.NormFloat64())
				}
			}
			plane := rows * ldd
			got, want := make([]uint16, 3*plane), make([]uint16, 3*plane)
			splitRows(got, ldd, plane, src, lds, rows, cols)
			splitGeneric(want, ldd, plane, src, lds, rows, cols)
			for i := range rows {
				for j := range cols {
					x, sum := src[i*lds+j], 0.0
					for p := range 3 {
						at := p*plane + i*ldd + j
						if got[at] != want[at] {
							t.Fatalf("part %d of %v (%#x) is %#x, want %#x", p, x, math.Float32bits(x), got[at], want[at])
						}
						sum += float64(fromBF16(got[at]))
					}
					if a := math.Abs(float64(x)); a < 0x1.fep127 && a >= 0x1p-100 && sum != float64(x) {
						t.Fatalf("the parts of %v sum to %v", x, sum)
					}
				}
			}
		}
	})
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
			GemmParts(3, c.Matrix, a.Matrix, b.Matrix, m, n, k, false, make([]float32, GemmPartsScratch(3, m, n, k)))
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
				scratch := make([]float32, GemmPartsScratch(parts, s.m, s.n, s.k))
				b.ResetTimer()
				for range b.N {
					GemmParts(parts, c.Matrix, x.Matrix, y.Matrix, s.m, s.n, s.k, false, scratch)
				}
				b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
