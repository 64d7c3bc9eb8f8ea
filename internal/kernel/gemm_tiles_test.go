package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// sumOfTiles computes an element from the definition in gemm_tiles.go.
func sumOfTiles(a, b *testMatrix, i, j, k int) (sum float32) {
	at := func(m *testMatrix, i, j int) float32 { return ftz(m.at(i, j)) }
	for lo := 0; lo < k; lo += 32 {
		var chain [2]float32
		for kk := lo; kk < min(lo+32, k); kk++ {
			chain[kk&1] = ftz(fma32(at(a, i, kk), at(b, kk, j), chain[kk&1]))
		}
		sum = ftz(sum + ftz(chain[0]+chain[1]))
	}
	return sum
}

func needTiles(t testing.TB) {
	if !impl.Tiles() {
		t.Skip("SKIPPED: this processor, or its system, has no tiles of bfloat16")
	}
}

// tileKinds returns a kind of testGemm with two bfloat16 operands.
func tileKinds(r *rand.Rand) int { return (r.IntN(kinds) | 2 | 8) &^ (128 | 256) }

func TestTilesSizes(t *testing.T) {
	needTiles(t)
	r := rand.New(rand.NewPCG(21, 22))
	sizes := []int{1, 2, 15, 16, 17, 31, 32, 33, 70}
	for _, m := range sizes {
		for _, n := range sizes {
			for _, k := range []int{1, 2, 3, 31, 32, 33, 34, 64, 95} {
				testGemm(t, r, m, n, k, tileKinds(r))
			}
		}
	}
}

// Products of several blocks in each direction, in every kind.
func TestTilesBlocks(t *testing.T) {
	needTiles(t)
	r := rand.New(rand.NewPCG(23, 24))
	steps, cols := Parts(0).limits()
	depth := steps * tileDepth
	for _, d := range [][3]int{
		{5, 40, 2*depth + 7}, {70, 3, depth + 1}, {3, 2*cols + 11, 5}, {sumRows + 35, 5, depth + 32}, {33, cols + 1, 64}, {33, 64, 2 * depth},
	} {
		for kind := range kinds {
			if kind&(2|8|128|256) == 2|8 && (d[0]*d[1]*d[2] < 1<<18 || kind%32 == 10) {
				testGemm(t, r, d[0], d[1], d[2], kind)
			}
		}
	}
}

// The bits of an element depend neither on its position nor on its neighbors.
func TestTilesElementAlone(t *testing.T) {
	needTiles(t)
	r := rand.New(rand.NewPCG(25, 26))
	const m, n, k = 75, 90, 700
	a, b := newTestMatrix(r, m, k, 0, false, true), newTestMatrix(r, k, n, 0, true, true)
	c := newTestMatrix(r, m, n, 0, false, false)
	runGemm(c, a, b, k, false)
	for range 200 {
		i, j := r.IntN(m), r.IntN(n)
		rows, cols := 1+r.IntN(m-i), 1+r.IntN(n-j)
		part := newTestMatrix(r, rows, cols, 0, false, false)
		Gemm(part.Matrix, a.From(i, 0), b.From(0, j), rows, cols, k, false, make([]float32, GemmScratch(part.Matrix, a.Matrix, b.Matrix, rows, cols, k, false)))
		for x := range rows {
			for y := range cols {
				if part.at(x, y) != c.at(i+x, j+y) {
					t.Fatalf("element (%d,%d) of a part of %d x %d from (%d,%d) is %v, of the whole %v", x, y, rows, cols, i, j, part.at(x, y), c.at(i+x, j+y))
				}
			}
		}
	}
}

// Every version of a tile step has the bits of the generic one for large, small, subnormal and
// infinite numbers and NaN.
func TestTilesNumbers(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		if impl.Tiles() || impl.Pairs() {
			testTilesNumbers(t)
		}
	})
}

func testTilesNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	const strips, steps, panels = 2, 3, 2
	of := tilesOf{strips, panels, steps, (steps + 1) * tileElems, (steps + 2) * tileElems, 0}
	draw := func(kind int) uint16 {
		x := float32(r.NormFloat64())
		switch {
		case kind == 1:
			x = float32(math.Ldexp(float64(x), r.IntN(250)-125))
		case kind == 2 && r.IntN(20) == 0:
			x = []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 0, float32(math.Copysign(0, -1))}[r.IntN(5)]
		case kind == 3:
			x = math.Float32frombits(r.Uint32() & 0x807f0000) // subnormal
		}
		return uint16(math.Float32bits(x) >> 16)
	}
	for kind := range 4 {
		for _, first := range []bool{true, false} {
			a, b := make([]uint16, strips*of.sa), make([]uint16, panels*of.sb)
			for i := range a {
				a[i] = draw(kind)
			}
			for i := range b {
				b[i] = draw(kind % 3)
			}
			const ld = panels*tileRows + 3
			want, got := make([]float32, strips*tileRows*ld), make([]float32, strips*tileRows*ld)
			for i := range want {
				want[i] = float32(r.NormFloat64())
			}
			copy(got, want)
			tilesGeneric(of, a, b, want, ld, first, impl.Pairs())
			tiles(of, a, b, got, ld, first)
			for i := range want {
				if x, y := got[i], want[i]; math.Float32bits(x) != math.Float32bits(y) && !(x != x && y != y) {
					t.Fatalf("kind %d, first %t: element %d is %v (%#x), want %v (%#x)", kind, first, i, x, math.Float32bits(x), y, math.Float32bits(y))
				}
			}
		}
	}
}

// Packing has the bits of the generic loops and writes nothing else.
func TestTilesPacking(t *testing.T) {
	if impl.Current() != impl.AVX512 {
		t.Skip("SKIPPED: this processor packs with the generic loops")
	}
	r := rand.New(rand.NewPCG(29, 30))
	src := make([]uint16, 40*300)
	for i := range src {
		src[i] = uint16(r.Uint32())
	}
	compare := func(what string, f, g func(dst []uint16)) {
		t.Helper()
		want, got := make([]uint16, 4*tileElems), make([]uint16, 4*tileElems)
		for i := range want {
			want[i], got[i] = 0xbeef, 0xbeef
		}
		g(want)
		f(got)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: element %d is %#x, want %#x", what, i, got[i], want[i])
			}
		}
	}
	for range 300 {
		ld, steps, rows := 128+r.IntN(100), 1+r.IntN(3), 1+r.IntN(32)
		compare(fmt.Sprintf("copy, %d rows of %d steps", rows, steps),
			func(d []uint16) { copyTiles(d, src, ld, rows, steps) }, func(d []uint16) { copyTilesGeneric(d, src, ld, rows, steps) })
		pairs, cols, apart := r.IntN(20), 1+r.IntN(32), r.IntN(700)
		compare(fmt.Sprintf("%d pairs, %d columns", pairs, cols),
			func(d []uint16) { pairTiles(d, src, ld, apart, pairs, cols) }, func(d []uint16) { pairTilesGeneric(d, src, ld, apart, pairs, cols) })
		step := 2 * r.IntN(40)
		compare(fmt.Sprintf("transpose, %d steps of %d", steps, step),
			func(d []uint16) { transposeTiles(d, src, ld, step, steps) }, func(d []uint16) { transposeTilesGeneric(d, src, ld, step, steps) })
	}
}

// The shapes of a step: forward, the input's gradient, the weights' gradient.
func BenchmarkTiles(b *testing.B) {
	needTiles(b)
	for _, s := range []struct {
		name    string
		m, n, k int
		ta, tb  bool
		narrow  bool
	}{
		{"forward", 2048, 1536, 512, false, true, true}, {"forward wide", 2048, 2752, 512, false, true, true}, {"forward deep", 2048, 512, 1376, false, true, true},
		{"input", 2048, 512, 1536, false, false, true}, {"input deep", 2048, 512, 2752, false, false, true},
		{"weights", 1536, 512, 2048, true, false, false}, {"weights wide", 512, 1376, 2048, true, false, false},
		{"logits", 1024, 8192, 512, false, true, false}, {"logits' weights", 8192, 512, 1024, true, false, false},
	} {
		b.Run(s.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x, y := newTestMatrix(r, s.m, s.k, 0, s.ta, true), newTestMatrix(r, s.k, s.n, 0, s.tb, true)
			c := newTestMatrix(r, s.m, s.n, 0, false, s.narrow)
			scratch := make([]float32, GemmScratch(c.Matrix, x.Matrix, y.Matrix, s.m, s.n, s.k, false))
			b.ResetTimer()
			for range b.N {
				Gemm(c.Matrix, x.Matrix, y.Matrix, s.m, s.n, s.k, false, scratch)
			}
			b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
