package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// sumOfPairs computes an element of a product by pairs from its definition.
func sumOfPairs(a, b *testMatrix, i, j, k int) (sum float32) {
	for kk := range k {
		sum = ftz(fma32(ftz(a.at(i, kk)), ftz(b.at(kk, j)), sum))
	}
	if k%2 != 0 {
		sum += 0 // -0 becomes 0
	}
	return sum
}

// usePairs selects products by pairs for a test.
func usePairs(t testing.TB) {
	for _, l := range impl.Available() {
		if l == impl.AVX512BF16 {
			t.Cleanup(impl.Use(l))
			return
		}
	}
	t.Skip("SKIPPED: this processor has no products of pairs of bfloat16")
}

// bf16Of draws numbers of all sizes, or with kind 1 and more also subnormal and infinite ones and NaN.
func bf16Of(r *rand.Rand, kind int) uint16 {
	x := uint32(math.Float32bits(float32(r.NormFloat64())))
	switch {
	case kind == 1:
		x = math.Float32bits(float32(math.Ldexp(r.NormFloat64(), r.IntN(250)-125)))
	case kind == 2 && r.IntN(4) == 0:
		x = r.Uint32() & 0x807fffff // subnormal
	case kind == 3: // sums and products close to the subnormal
		x = math.Float32bits(float32(math.Ldexp(r.NormFloat64(), -63-r.IntN(8))))
	case kind == 4 && r.IntN(30) == 0:
		x = []uint32{0x7f800000, 0xff800000, 0x7fc00000, 0, 0x80000000}[r.IntN(5)]
	}
	return uint16(x >> 16)
}

// Numbers of every kind have the bits of the definition, in every form of the operands.
func TestPairsNumbers(t *testing.T) {
	usePairs(t)
	r := rand.New(rand.NewPCG(31, 32))
	for kind := range 5 {
		for form := range 32 {
			m, n, k := 1+r.IntN(40), 1+r.IntN(70), 1+r.IntN(90)
			a, b := newTestMatrix(r, m, k, 0, form&1 != 0, true), newTestMatrix(r, k, n, 0, form&2 != 0, true)
			for _, x := range []*testMatrix{a, b} {
				for i := range x.H {
					x.H[i] = bf16Of(r, kind)
				}
			}
			c := newTestMatrix(r, m, n, 0, false, form&4 != 0)
			want := c.clone()
			specify(want, a, b, k, form&8 != 0)
			runGemm(c, a, b, k, form&8 != 0)
			for i := range m {
				for j := range n {
					if x, y := c.at(i, j), want.at(i, j); math.Float32bits(x) != math.Float32bits(y) && !(x != x && y != y) {
						t.Fatalf("kind %d, form %d: element (%d, %d) is %v (%#x), want %v (%#x)", kind, form, i, j, x, math.Float32bits(x), y, math.Float32bits(y))
					}
				}
			}
		}
	}
}

// Sizes around a tile and products of several blocks in each direction.
func TestPairsBlocks(t *testing.T) {
	usePairs(t)
	r := rand.New(rand.NewPCG(37, 38))
	s := gemmShapes[impl.Current()]
	for _, m := range []int{1, 2, 3, s.mr - 1, s.mr, s.mr + 1, 33} {
		for _, n := range []int{1, 15, 16, 17, s.nr - 1, s.nr, s.nr + 1, 69} {
			for _, k := range []int{1, 2, 3, 7, 8, 9, 17, 34} {
				testGemm(t, r, m, n, k, tileKinds(r))
			}
		}
	}
	for _, d := range [][3]int{
		{5, 9, 4*s.kc + 7}, {packRows + 3*s.mr + 1, 3, 2*s.kc + 1}, {3, 2*s.nc + 11, 5}, {sumRows + 3, 3, 2*s.kc + 2}, {3, s.nc + 1, 2*s.kc + 3},
	} {
		for range 2 {
			testGemm(t, r, d[0], d[1], d[2], tileKinds(r))
		}
		testGemm(t, r, d[0], d[1], d[2], 2|8|16|32)
	}
}

// Without subnormal numbers, products by pairs have the bits of those in float32.
func TestPairsAreFloat32(t *testing.T) {
	usePairs(t)
	r := rand.New(rand.NewPCG(33, 34))
	const m, n, k = 45, 70, 1501
	for form := range 4 {
		a, b := newTestMatrix(r, m, k, 0, form&1 != 0, true), newTestMatrix(r, k, n, 0, form&2 != 0, true)
		got, want := newTestMatrix(r, m, n, 0, false, false), newTestMatrix(r, m, n, 0, false, false)
		runGemm(got, a, b, k, false)
		restore := impl.Use(impl.AVX512)
		runGemm(want, a, b, k, false)
		restore()
		for i := range got.F {
			if math.Float32bits(got.F[i]) != math.Float32bits(want.F[i]) {
				t.Fatalf("form %d: element %d is %v, in float32 %v", form, i, got.F[i], want.F[i])
			}
		}
	}
}

// Parts of a product, computed alone, have its bits.
func TestPairsParts(t *testing.T) {
	usePairs(t)
	checkParts(t, rand.New(rand.NewPCG(35, 36)), 67, 133, 1301, true)
}
