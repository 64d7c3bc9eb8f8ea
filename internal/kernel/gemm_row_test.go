package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// A product of one row with a transposed matrix has the bits of Gemm's definition for numbers of every kind.
func TestGemmRow(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		for kind := range kinds {
			if kind&1 != 0 || kind&4 == 0 { // a is not transposed, b is
				continue
			}
			testGemm(t, r, 1, 1+r.IntN(70), rowDepth*(1+r.IntN(5)), kind)
		}
		for _, n := range []int{16 * rowStream, 32*rowStream + 200} { // whole streams, and the rest
			for _, kind := range []int{4, 4 | 8 | 16 | 32} {
				testGemm(t, r, 1, n, rowDepth, kind)
			}
		}
		for numbers := range 5 {
			for form := range 8 {
				n, k := 16+r.IntN(40), rowDepth*(1+r.IntN(4))
				a, b := newTestMatrix(r, 1, k, 0, false, form&1 != 0), newTestMatrix(r, k, n, 0, true, true)
				for i := range b.H {
					b.H[i] = bf16Of(r, numbers)
				}
				for i := range a.H {
					a.H[i] = bf16Of(r, numbers)
				}
				c := newTestMatrix(r, 1, n, 0, false, form&2 != 0)
				want := c.clone()
				specify(want, a, b, k, form&4 != 0)
				runGemm(c, a, b, k, form&4 != 0)
				for j := range n {
					if x, y := c.at(0, j), want.at(0, j); math.Float32bits(x) != math.Float32bits(y) && !(x != x && y != y) {
						t.Fatalf("numbers %d, form %d: element %d of %d is %v (%#x), want %v (%#x)", numbers, form, j, n, x, math.Float32bits(x), y, math.Float32bits(y))
					}
				}
			}
		}
	})
}

// The products of a token of a model of 0.5 billion parameters: each reads its weights once.
func BenchmarkGemmRow(b *testing.B) {
	impl.Each(b, func(b *testing.B) {
		for _, s := range []struct {
			n, k   int
			narrow bool
		}{{9728, 896, false}, {9728, 896, true}, {896, 4864, false}, {896, 4864, true}} {
			b.Run(fmt.Sprintf("%dx%d,bfloat16=%t", s.n, s.k, s.narrow), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				x := newTestMatrix(r, 1, s.k, 0, false, s.narrow)
				var ws []*testMatrix // more than caches hold
				for range 8 {
					ws = append(ws, newTestMatrix(r, s.k, s.n, 0, true, s.narrow))
				}
				c := newTestMatrix(r, 1, s.n, 0, false, s.narrow)
				scratch := make([]float32, GemmScratch(c.Matrix, x.Matrix, ws[0].Matrix, 1, s.n, s.k, false))
				bytes := 4 * s.n * s.k
				if s.narrow {
					bytes /= 2
				}
				b.SetBytes(int64(bytes))
				b.ResetTimer()
				for i := range b.N {
					Gemm(c.Matrix, x.Matrix, ws[i%len(ws)].Matrix, 1, s.n, s.k, false, scratch)
				}
			})
		}
	})
}
