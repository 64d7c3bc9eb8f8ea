package kernel

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

const gemmGuard = 0x7fc0beef // a NaN that no kernel makes

// testMatrix is a rows x cols matrix between gemmGuard values.
type testMatrix struct {
	Matrix
	all        []float32
	allH       []uint16
	rows, cols int
}

func newTestMatrix(r *rand.Rand, rows, cols, gap int, trans, narrow bool) *testMatrix {
	return newHalfMatrix(r, rows, cols, gap, trans, narrow, false)
}

// newHalfMatrix has float16 elements if half, else bfloat16.
func newHalfMatrix(r *rand.Rand, rows, cols, gap int, trans, narrow, half bool) *testMatrix {
	m := &testMatrix{rows: rows, cols: cols}
	if trans {
		rows, cols = cols, rows
	}
	m.LD, m.Trans = cols+gap, trans
	n := max(0, (rows-1)*m.LD+cols)
	const edge = 37
	m.all = make([]float32, n+2*edge)
	for i := range m.all {
		m.all[i] = math.Float32frombits(gemmGuard)
	}
	for i := range rows {
		for j := range cols {
			m.all[edge+i*m.LD+j] = float32(r.NormFloat64())
		}
	}
	if !narrow {
		m.F = m.all[edge:][:n:n]
		return m
	}
	m.allH = make([]uint16, len(m.all))
	for i, x := range m.all {
		m.allH[i] = uint16(math.Float32bits(x) >> 16)
		if half {
			m.allH[i] = floatToHalf(x)
		}
	}
	m.Half = half
	m.H = m.allH[edge:][:n:n]
	return m
}

func (m *testMatrix) at(i, j int) float32 {
	x := m.From(i, j)
	if m.H != nil && m.Half {
		return halfToFloat(x.H[0])
	}
	if m.H != nil {
		return math.Float32frombits(uint32(x.H[0]) << 16)
	}
	return x.F[0]
}

func (m *testMatrix) clone() *testMatrix {
	c := *m
	c.all = append([]float32(nil), m.all...)
	if m.H != nil {
		c.allH = append([]uint16(nil), m.allH...)
		c.H = c.allH[37:][:len(m.H):len(m.H)]
	} else {
		c.F = c.all[37:][:len(m.F):len(m.F)]
	}
	return &c
}

// same compares all memory bit by bit, including guards and gaps.
func (m *testMatrix) same(o *testMatrix) error {
	for i := range m.all {
		if x, y := math.Float32bits(m.all[i]), math.Float32bits(o.all[i]); x != y {
			return fmt.Errorf("element %d of memory is %v (%#x), want %v (%#x)", i-37, m.all[i], x, o.all[i], y)
		}
	}
	for i := range m.allH {
		if m.allH[i] != o.allH[i] {
			return fmt.Errorf("element %d of memory is %#x, want %#x", i-37, m.allH[i], o.allH[i])
		}
	}
	return nil
}

// specify computes the product from Gemm's definition.
func specify(c, a, b *testMatrix, k int, accumulate bool) {
	for i := range c.rows {
		for j := range c.cols {
			var sum float32
			for kk := range k {
				sum = fma32(a.at(i, kk), b.at(kk, j), sum)
			}
			switch {
			case a.bfloat16() && b.bfloat16() && impl.Tiles():
				sum = sumOfTiles(a, b, i, j, k)
			case a.bfloat16() && b.bfloat16() && impl.Pairs():
				sum = sumOfPairs(a, b, i, j, k)
			}
			if accumulate {
				sum = c.at(i, j) + sum
			}
			if c.H != nil && c.Half {
				c.H[i*c.LD+j] = floatToHalf(sum)
			} else if c.H != nil {
				f32ToBF16Generic(c.H[i*c.LD+j:][:1], []float32{sum})
			} else {
				c.F[i*c.LD+j] = sum
			}
		}
	}
}

func runGemm(c, a, b *testMatrix, k int, accumulate bool) {
	scratch := make([]float32, GemmScratch(c.Matrix, a.Matrix, b.Matrix, c.rows, c.cols, k, accumulate))
	for i := range scratch {
		scratch[i] = math.Float32frombits(gemmGuard)
	}
	Gemm(c.Matrix, a.Matrix, b.Matrix, c.rows, c.cols, k, accumulate, scratch)
}

func testGemm(t *testing.T, r *rand.Rand, m, n, k, kind int) {
	t.Helper()
	gap := kind >> 6 & 1 * 5
	a := newHalfMatrix(r, m, k, gap, kind&1 != 0, kind&2 != 0, kind&128 != 0)
	b := newHalfMatrix(r, k, n, gap, kind&4 != 0, kind&8 != 0, kind&256 != 0)
	c := newHalfMatrix(r, m, n, gap, false, kind&16 != 0, kind&512 != 0)
	want, a0, b0 := c.clone(), a.clone(), b.clone()
	specify(want, a, b, k, kind&32 != 0)
	runGemm(c, a, b, k, kind&32 != 0)
	if err := c.same(want); err != nil {
		t.Fatalf("%d x %d x %d, kind %#x: c: %v", m, n, k, kind, err)
	}
	if a.same(a0) != nil || b.same(b0) != nil {
		t.Fatalf("%d x %d x %d, kind %#x: an operand was changed", m, n, k, kind)
	}
}

const kinds = 1024 // transposed and 16-bit operands, 16-bit result, accumulate, gaps; bfloat16 or float16

func TestGemmSizes(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		s := gemmShapes[impl.Current()]
		r := rand.New(rand.NewPCG(1, 2))
		sizes := func(tile int) []int {
			return []int{0, 1, 2, 3, tile - 1, tile, tile + 1, 2*tile + 5}
		}
		for _, m := range sizes(s.mr) {
			for _, n := range sizes(s.nr) {
				for _, k := range []int{0, 1, 2, 3, 4, 5, 17} {
					for range 4 {
						testGemm(t, r, m, n, k, r.IntN(kinds))
					}
				}
			}
		}
	})
}

// Products of several blocks in each direction.
func TestGemmBlocks(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		if impl.Tiles() {
			t.Skip("skipped: tiles do not support this; it runs as avx512")
		}
		s := gemmShapes[impl.Current()]
		r := rand.New(rand.NewPCG(3, 4))
		for _, d := range [][3]int{
			{5, 9, 2*s.kc + 7}, {packRows + 3*s.mr + 1, 3, s.kc + 1}, {3, 2*s.nc + 11, 5}, {sumRows + 3, s.nr + 1, s.kc + 2},
			{31, s.nc + 1, s.kc + 3}, {7, 40, 1024},
		} {
			for range 3 {
				testGemm(t, r, d[0], d[1], d[2], r.IntN(kinds))
			}
			testGemm(t, r, d[0], d[1], d[2], 16|32)
		}
	})
}

// The scratch of the full product suffices for its parts.
func TestGemmScratchSuffices(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		for range 20000 {
			var of [3]Matrix // types only
			for i := range of {
				if r.IntN(2) == 0 {
					of[i] = Matrix{H: []uint16{0}, Half: r.IntN(3) == 0}
				}
			}
			accumulate := r.IntN(2) == 0
			m, n, k := 1+r.IntN(3000), 1+r.IntN(3000), 1+r.IntN(3000)
			whole := GemmScratch(of[0], of[1], of[2], m, n, k, accumulate)
			m, n, k = 1+r.IntN(m), 1+r.IntN(n), 1+r.IntN(k)
			var need int
			if Parts(0).ByTiles(of[1], of[2]) {
				g := newTiled(0, of[0], of[1], of[2], m, n, k, accumulate, 1)
				need = g.scratch(1)
			} else {
				g := newGemm(of[0], of[1], of[2], m, n, k, accumulate, 1)
				g.arrange()
				need = g.scratch(1)
			}
			if part := GemmScratch(of[0], of[1], of[2], m, n, k, accumulate); need > part || part > whole {
				t.Fatalf("%d x %d x %d of %v needs %d floats; GemmScratch says %d, and %d for a larger product", m, n, k, of, need, part, whole)
			}
		}
	})
}

func TestGemmNaNAndInf(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		const m, n, k = 30, 70, 40
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			for kind := range 16 {
				a := newTestMatrix(r, m, k, 0, kind&1 != 0, kind&2 != 0)
				b := newTestMatrix(r, k, n, 0, kind&4 != 0, kind&8 != 0)
				c := newTestMatrix(r, m, n, 0, false, false)
				i, kk := r.IntN(m), r.IntN(k)
				if x := a.From(i, kk); x.H != nil {
					x.H[0] = uint16(math.Float32bits(bad) >> 16)
				} else {
					x.F[0] = bad
				}
				runGemm(c, a, b, k, false)
				for p := range m {
					for q := range n {
						y := float64(c.at(p, q))
						if finite := !math.IsNaN(y) && !math.IsInf(y, 0); finite == (p == i) {
							t.Fatalf("%v in row %d: element (%d, %d) is %v", bad, i, p, q, y)
						}
					}
				}
			}
		}
	})
}

// A part of the rows or columns, computed alone, has the same bits as in the full product.
func TestGemmParts(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		m, n, k := 67, 133, 700
		if impl.Current() == impl.Generic {
			m, n, k = 23, 37, 300
		}
		checkParts(t, r, m, n, k, false)
	})
}

// checkParts checks that parts of products of [m k] * [k n], computed alone, have their bits.
func checkParts(t *testing.T, r *rand.Rand, m, n, k int, bf16 bool) {
	t.Helper()
	for form := range 4 {
		a, b := newTestMatrix(r, m, k, 3, form&1 != 0, bf16), newTestMatrix(r, k, n, 3, form&2 != 0, bf16)
		whole := newTestMatrix(r, m, n, 3, false, false)
		runGemm(whole, a, b, k, false)
		for range 8 {
			i, j := r.IntN(m), r.IntN(n)
			rows, cols := 1+r.IntN(m-i), 1+r.IntN(n-j)
			part := newTestMatrix(r, rows, cols, 0, false, false)
			Gemm(part.Matrix, a.From(i, 0), b.From(0, j), rows, cols, k, false, make([]float32, GemmScratch(part.Matrix, a.Matrix, b.Matrix, rows, cols, k, false)))
			for p := range rows {
				for q := range cols {
					if x, y := part.at(p, q), whole.at(i+p, j+q); x != y {
						t.Fatalf("form %d: rows from %d, columns from %d: element (%d, %d) is %v, in the whole %v", form, i, j, p, q, x, y)
					}
				}
			}
		}
	}
}

// The error of the chain is bounded by k roundings of the sum of magnitudes.
func TestGemmError(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		const m, n, k = 9, 35, 600
		a, b := newTestMatrix(r, m, k, 0, false, false), newTestMatrix(r, k, n, 0, true, false)
		c := newTestMatrix(r, m, n, 0, false, false)
		runGemm(c, a, b, k, false)
		for i := range m {
			for j := range n {
				var sum, size float64
				for kk := range k {
					p := float64(a.at(i, kk)) * float64(b.at(kk, j))
					sum += p
					size += math.Abs(p)
				}
				if e := math.Abs(sum - float64(c.at(i, j))); e > k*size*0x1p-24 {
					t.Fatalf("element (%d, %d) is off by %g", i, j, e)
				}
			}
		}
	})
}

func TestFMA32(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	number := func() float32 {
		u := r.Uint32()
		switch r.IntN(4) {
		case 0:
			u &= 0xfff00000 // few bits make ties likely
		case 1:
			u = u&0x807fffff | uint32(100+r.IntN(56))<<23
		case 2:
			u = u&0x80000fff | uint32(127+r.IntN(30))<<23
		}
		return math.Float32frombits(u)
	}
	for range 300000 {
		x, y, z := number(), number(), number()
		if r.IntN(3) == 0 {
			z = float32(float64(x) * float64(y) * (1 + r.Float64()*0x1p-20)) // nearly cancels or ties
			if r.IntN(2) == 0 {
				z = -z
			}
		}
		got := fma32(x, y, z)
		fx, fy, fz := float64(x), float64(y), float64(z)
		if s := fx*fy + fz; math.IsNaN(s) || math.IsInf(s, 0) {
			if w := float32(s); got != w && (got == got || w == w) {
				t.Fatalf("fma32(%v, %v, %v) = %v, want %v", x, y, z, got, w)
			}
			continue
		}
		exact := new(big.Float).SetPrec(700).Mul(big.NewFloat(fx), big.NewFloat(fy))
		exact.SetPrec(700).Add(exact, new(big.Float).SetPrec(700).SetFloat64(fz))
		if want, _ := exact.Float32(); got != want {
			t.Fatalf("fma32(%b, %b, %b) = %b, want %b", x, y, z, got, want)
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	type shape struct{ m, k, n, kind int }
	for _, s := range []shape{
		{512, 512, 512, 0}, {1024, 1024, 1024, 0}, {2048, 2048, 2048, 0},
		{2048, 768, 3072, 0}, {2048, 768, 3072, 4}, {2048, 3072, 768, 0}, {2048, 3072, 768, 4}, {2048, 768, 768, 0}, {2048, 768, 768, 4},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d_%d", s.m, s.k, s.n, s.kind), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x := newTestMatrix(r, s.m, s.k, 0, s.kind&1 != 0, s.kind&2 != 0)
			y := newTestMatrix(r, s.k, s.n, 0, s.kind&4 != 0, s.kind&8 != 0)
			z := newTestMatrix(r, s.m, s.n, 0, false, s.kind&16 != 0)
			scratch := make([]float32, GemmScratch(z.Matrix, x.Matrix, y.Matrix, s.m, s.n, s.k, s.kind&32 != 0))
			for b.Loop() {
				Gemm(z.Matrix, x.Matrix, y.Matrix, s.m, s.n, s.k, s.kind&32 != 0, scratch)
			}
			b.ReportMetric(2e-9*float64(s.m)*float64(s.k)*float64(s.n)*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
		})
	}
}

// A sum of no elements is 0, also of views whose rows have gaps.
func TestGemmWithoutSum(t *testing.T) {
	c := Matrix{F: []float32{7, 7, 7, 7, 7}, LD: 3}
	for _, a := range []Matrix{{LD: 5}, {LD: 5, Trans: true}} {
		Gemm(c, a, Matrix{LD: 5, Trans: true}, 2, 2, 0, true, nil)
		if c.F[0] != 7 {
			t.Error("the old elements are not kept")
		}
	}
	Gemm(c, Matrix{LD: 5}, Matrix{LD: 5}, 2, 2, 0, false, nil)
	for i, want := range []float32{0, 0, 7, 0, 0} {
		if c.F[i] != want {
			t.Errorf("%v", c.F)
		}
	}
}
