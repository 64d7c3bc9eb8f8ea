package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// vectorKernel is a kernel under test: fresh copies of the inputs, outputs first.
type vectorKernel struct {
	name    string
	outs    int
	rw      int // the first rw outputs are also inputs
	ins     int
	run     func(o, x [][]float32)
	want    func(o, x []float64) []float64 // one element
	tol     float64                        // relative to the result, or to big if that is larger
	inPlace bool                           // the first output may be any input
}

func vectorKernels() []vectorKernel {
	silu := func(x float64) float64 { return x * sigmoid(x) }
	step := AdamWStep{Keep: 0.99, Beta1: 0.9, New1: 0.1, Beta2: 0.95, New2: 0.05, Rate: 0.01, Root: 2, Eps: 1e-8, Scale: 0.5}
	return []vectorKernel{
		{"add", 1, 0, 2, func(o, x [][]float32) { Add(o[0], x[0], x[1]) },
			func(o, x []float64) []float64 { return []float64{x[0] + x[1]} }, 1e-7, true},
		{"add scaled", 1, 0, 2, func(o, x [][]float32) { AddScaled(o[0], x[0], x[1], 0.3) },
			func(o, x []float64) []float64 { return []float64{x[0] + float64(float32(0.3))*x[1]} }, 3e-7, true},
		{"scale", 1, 1, 0, func(o, x [][]float32) { scale(o[0], 3) },
			func(o, x []float64) []float64 { return []float64{o[0] * 3} }, 1e-7, false},
		{"swiglu", 1, 0, 2, func(o, x [][]float32) { SwiGLU(o[0], x[0], x[1]) },
			func(o, x []float64) []float64 { return []float64{silu(x[0]) * x[1]} }, 4e-7, true},
		{"swiglu backward", 2, 0, 3, func(o, x [][]float32) { SwiGLUBackward(o[0], o[1], x[0], x[1], x[2]) },
			func(o, x []float64) []float64 {
				s := sigmoid(x[1])
				return []float64{x[0] * x[2] * s * (1 + x[1]*(1-s)), x[0] * silu(x[1])}
			}, 1e-6, true},
		{"gelu tanh", 1, 0, 1, func(o, x [][]float32) { GELUTanh(o[0], x[0]) },
			func(o, x []float64) []float64 { return geluReference(geluTanhGeneric, x[0]) }, 1e-6, true},
		{"gelu erf", 1, 0, 1, func(o, x [][]float32) { GELUErf(o[0], x[0]) },
			func(o, x []float64) []float64 { return geluReference(geluErfGeneric, x[0]) }, 1e-6, true},
		{"gelu tanh backward", 1, 0, 2, func(o, x [][]float32) { GELUTanhBackward(o[0], x[0], x[1]) },
			func(o, x []float64) []float64 { return geluSlope(geluTanhBackwardGeneric, x) }, 1e-6, true},
		{"gelu erf backward", 1, 0, 2, func(o, x [][]float32) { GELUErfBackward(o[0], x[0], x[1]) },
			func(o, x []float64) []float64 { return geluSlope(geluErfBackwardGeneric, x) }, 1e-6, true},
		{"rms scale", 1, 0, 2, func(o, x [][]float32) { RMSScale(o[0], x[0], x[1], 0.7) },
			func(o, x []float64) []float64 { return []float64{x[0] * x[1] * float64(float32(0.7))} }, 2e-7, true},
		{"layer scale", 1, 0, 3, func(o, x [][]float32) { LayerScale(o[0], x[0], x[1], x[2], 0.25, 0.5) },
			func(o, x []float64) []float64 { return []float64{(x[0]-0.25)*0.5*x[1] + x[2]} }, 5e-7, true},
		{"rms gradient", 2, 2, 4, func(o, x [][]float32) { RMSGradient(o[0], o[1], x[0], x[3], x[1], x[2], 0.5, 0.25) },
			func(o, x []float64) []float64 {
				return []float64{x[3] + 0.5*x[0]*x[2] - 0.25*x[1], o[1] + x[0]*x[1]*0.5}
			}, 3e-6, false},
		{"rms gradient alone", 2, 2, 3, func(o, x [][]float32) { RMSGradient(o[0], o[1], x[0], nil, x[1], x[2], 0.5, 0.25) },
			func(o, x []float64) []float64 {
				return []float64{0.5*x[0]*x[2] - 0.25*x[1], o[1] + x[0]*x[1]*0.5}
			}, 3e-6, false},
		{"layer gradient", 3, 3, 4, func(o, x [][]float32) {
			LayerGradient(o[0], o[1], o[2], x[0], x[3], x[1], x[2], 0.125, 0.5, 0.25, 0.75)
		},
			func(o, x []float64) []float64 {
				c := x[1] - 0.125
				return []float64{x[3] + 0.5*x[0]*x[2] - 0.25*c - 0.75, o[1] + x[0]*c*0.5, o[2] + x[0]}
			}, 3e-6, false},
		{"layer gradient alone", 3, 3, 3, func(o, x [][]float32) {
			LayerGradient(o[0], o[1], o[2], x[0], nil, x[1], x[2], 0.125, 0.5, 0.25, 0.75)
		},
			func(o, x []float64) []float64 {
				c := x[1] - 0.125
				return []float64{0.5*x[0]*x[2] - 0.25*c - 0.75, o[1] + x[0]*c*0.5, o[2] + x[0]}
			}, 3e-6, false},
		{"adamw", 3, 3, 1, func(o, x [][]float32) {
			for i, v := range o[2] {
				o[2][i] = max(v, -v) // second moments are not negative
			}
			AdamW(o[0], o[1], o[2], x[0], &step)
		},
			func(o, x []float64) []float64 {
				g := x[0] * 0.5
				m := float64(step.Beta1)*o[1] + float64(step.New1)*g
				v := float64(step.Beta2)*math.Abs(o[2]) + float64(step.New2)*g*g
				return []float64{float64(step.Keep)*o[0] - float64(step.Rate)*m/(math.Sqrt(v)*2+1e-8), m, v}
			}, 5e-7, false},
		{"exp", 1, 1, 0, func(o, x [][]float32) { expSum(o[0], 2) },
			func(o, x []float64) []float64 { return []float64{math.Exp(o[0] - 2)} }, 5e-7, false},
	}
}

func geluReference(f func(dst, x []float32), x float64) []float64 {
	y := []float32{0}
	f(y, []float32{float32(x)})
	return []float64{float64(y[0])}
}

func geluSlope(f func(dx, dy, x []float32), x []float64) []float64 {
	y := []float32{0}
	f(y, []float32{float32(x[0])}, []float32{float32(x[1])})
	return []float64{float64(y[0])}
}

const guard = 12345.678

// guarded returns n elements from index off of a block, between guard values.
func guarded(rng *rand.Rand, n, off int) (all, x []float32) {
	all = make([]float32, off+n+40)
	for i := range all {
		all[i] = guard
	}
	x = all[off : off+n : off+n]
	for i := range x {
		x[i] = float32(2 * rng.NormFloat64())
	}
	return all, x
}

func checkGuards(t *testing.T, what string, all []float32, off, n int) {
	t.Helper()
	for i, v := range all {
		if (i < off || i >= off+n) && v != guard {
			t.Fatalf("%s: wrote element %d, outside its %d", what, i-off, n)
		}
	}
}

func TestVectorKernels(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, k := range vectorKernels() {
			for n := range 70 {
				off := rng.IntN(17)
				what := fmt.Sprintf("%s of %d at %d", k.name, n, off)
				var alls, o, x [][]float32
				for range k.outs {
					all, s := guarded(rng, n, off)
					alls, o = append(alls, all), append(o, s)
				}
				for range k.ins {
					all, s := guarded(rng, n, off)
					alls, x = append(alls, all), append(x, s)
				}
				before := make([][]float64, 0, k.outs+k.ins)
				for _, s := range append(append([][]float32(nil), o...), x...) {
					w := make([]float64, n)
					for i, v := range s {
						w[i] = float64(v)
					}
					before = append(before, w)
				}
				k.run(o, x)
				for _, all := range alls {
					checkGuards(t, what, all, off, n)
				}
				for j, s := range x {
					for i, v := range s {
						if float64(v) != before[k.outs+j][i] {
							t.Fatalf("%s: changed input %d", what, j)
						}
					}
				}
				for i := range n {
					in := make([]float64, 0, 8)
					for _, b := range before {
						in = append(in, b[i])
					}
					for j, want := range k.want(in[:k.outs], in[k.outs:]) {
						if got := float64(o[j][i]); math.Abs(got-want) > k.tol*max(math.Abs(want), 0.5) {
							t.Fatalf("%s: output %d element %d is %v, want %v of %v", what, j, i, got, want, in)
						}
					}
				}
			}
		}
	})
}

// TestVectorKernelsSplitAnywhere expects the same bits from one call, from two calls on parts split
// anywhere, and in place.
func TestVectorKernelsSplitAnywhere(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		const n = 75
		for _, k := range vectorKernels() {
			o, x := make([][]float32, k.outs), make([][]float32, k.ins)
			for j := range o {
				_, o[j] = guarded(rng, n, 0)
			}
			for j := range x {
				_, x[j] = guarded(rng, n, 0)
			}
			clone := func(s [][]float32) [][]float32 {
				c := make([][]float32, len(s))
				for i := range s {
					c[i] = append([]float32(nil), s[i]...)
				}
				return c
			}
			part := func(s [][]float32, lo, hi int) [][]float32 {
				c := make([][]float32, len(s))
				for i := range s {
					c[i] = s[i][lo:hi]
				}
				return c
			}
			whole := clone(o)
			k.run(whole, x)
			same := func(what string, got []float32, j int) {
				t.Helper()
				for i := range got {
					if math.Float32bits(got[i]) != math.Float32bits(whole[j][i]) {
						t.Fatalf("%s %s: output %d element %d is %v, at once %v", k.name, what, j, i, got[i], whole[j][i])
					}
				}
			}
			for cut := range n + 1 {
				two := clone(o)
				k.run(part(two, 0, cut), part(x, 0, cut))
				k.run(part(two, cut, n), part(x, cut, n))
				for j := range two {
					same(fmt.Sprint("cut at ", cut), two[j], j)
				}
			}
			if !k.inPlace {
				continue
			}
			for j := range x {
				c, d := clone(x), clone(o)
				d[0] = c[j]
				k.run(d, c)
				same("in place", d[0], 0)
			}
		}
	})
}

func TestVectorKernelsKeepNaNAndInfinity(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	impl.Each(t, func(t *testing.T) {
		for _, k := range vectorKernels() {
			for n := 1; n < 40; n += 7 {
				o, x := make([][]float32, k.outs), make([][]float32, k.ins)
				for j := range o {
					o[j] = make([]float32, n)
				}
				for j := range x {
					x[j] = make([]float32, n)
					x[j][n-1] = nan
				}
				if k.ins == 0 || k.rw > 0 {
					o[0][n-1] = nan
				}
				k.run(o, x)
				if v := o[0][n-1]; v == v {
					t.Errorf("%s: NaN became %v", k.name, v)
				}
				for i, v := range o[0][:n-1] {
					if v != v {
						t.Errorf("%s: NaN in element %d became NaN in %d", k.name, n-1, i)
					}
				}
			}
		}
		for _, n := range []int{5, 16, 21} {
			x := make([]float32, n)
			copy(x, []float32{-inf, -1000, inf, 1000, 89})
			in := append([]float32(nil), x...)
			expSum(x, 0)
			for i, want := range []float32{0, 0, inf, inf, inf} {
				if x[i] != want {
					t.Errorf("exp(%v) = %v", in[i], x[i])
				}
			}
			one, y := make([]float32, n), make([]float32, n)
			for i := range one {
				one[i] = 1
			}
			copy(in, []float32{-1e30, -1000, 1e30, 1000, -100})
			for name, f := range map[string]func(){
				"swiglu": func() { SwiGLU(y, in, one) }, "gelu tanh": func() { GELUTanh(y, in) }, "gelu erf": func() { GELUErf(y, in) },
			} {
				f()
				for i, want := range []float32{0, 0, 1e30, 1000, 0} {
					if d := y[i] - want; d > 1e-30 || d < -1e-30 {
						t.Errorf("%s(%v) = %v", name, in[i], y[i])
					}
				}
			}
			for name, f := range map[string]func(){
				"swiglu":    func() { SwiGLUBackward(y, make([]float32, n), one, in, one) },
				"gelu tanh": func() { GELUTanhBackward(y, one, in) }, "gelu erf": func() { GELUErfBackward(y, one, in) },
			} {
				f()
				for i, want := range []float32{0, 0, 1, 1, 0} {
					if d := float64(y[i] - want); !(math.Abs(d) < 1e-6) {
						t.Errorf("slope of %s at %v = %v", name, in[i], y[i])
					}
				}
			}
		}
	})
}

// TestExpIsAccurate samples the whole range.
func TestExpIsAccurate(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		worst := 0.0
		buf := make([]float32, 0, 1024)
		for v := -87.3; v < 88.7; {
			buf = buf[:0]
			for ; len(buf) < cap(buf); v += 1.7e-4 {
				buf = append(buf, float32(v))
			}
			got := append([]float32(nil), buf...)
			expSum(got, 0)
			for i, x := range buf {
				want := math.Exp(float64(x))
				if want > math.MaxFloat32 {
					continue
				}
				ulp := float64(math.Nextafter32(float32(want), float32(math.Inf(1))) - float32(want))
				worst = max(worst, math.Abs(float64(got[i])-want)/ulp)
			}
		}
		if worst > 2 {
			t.Errorf("off by %.2f ulp", worst)
		}
		t.Logf("off by %.2f ulp", worst)
	})
}

func TestVectorSums(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		for n := range 200 {
			off := rng.IntN(17)
			_, a := guarded(rng, n, off)
			_, b := guarded(rng, n, off)
			_, c := guarded(rng, n, off)
			const mean = 0.375
			var q, s, cq, d, g, gx, top, es, mass float64
			top = math.Inf(-1)
			for i := range a {
				x, y, z := float64(a[i]), float64(b[i]), float64(c[i])
				q, s, cq, d = q+x*x, s+x, cq+(x-mean)*(x-mean), d+x*y*z
				g, gx, top = g+x*y, gx+x*y*(z-mean), max(top, x)
				es += math.Exp(x - 3)
				mass += math.Abs(x*y*z) + math.Abs(x*y) + math.Abs(x)
			}
			near := func(name string, got, want, size float64) {
				t.Helper()
				if math.Abs(got-want) > 1e-6*size {
					t.Errorf("%s of %d: %v, want %v", name, n, got, want)
				}
			}
			near("squares", Squares(a), q, q)
			near("sum", Sum(a), s, mass)
			near("centered squares", CenteredSquares(a, mean), cq, cq)
			near("dot3", Dot3(a, b, c), d, mass)
			gg, ggx := LayerDots(a, b, c, mean)
			near("layer dots", gg, g, mass)
			near("layer dots", ggx, gx, 2*mass)
			if got := maximum(a); float64(got) != top {
				t.Errorf("maximum of %d: %v, want %v", n, got, top)
			}
			near("exp sum", expSum(append([]float32(nil), a...), 3), es, es)
			want, got := make([]float64, (n+63)/64), make([]float64, (n+63)/64)
			blockSquaresGeneric(want, a)
			blockSquares(got, a)
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("block %d of %d: %v, generic %v", i, n, got[i], want[i])
				}
			}
		}
	})
}

// TestConversions compares all versions with Go for every 16-bit value and values between them, at
// any alignment.
func TestConversions(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		h := make([]uint16, 1<<16)
		for i := range h {
			h[i] = uint16(i)
		}
		for _, c := range []struct {
			name          string
			widen, widenG func([]float32, []uint16)
			narrow, narG  func([]uint16, []float32)
		}{
			{"bf16", BF16ToF32, bf16ToF32Generic, F32ToBF16, f32ToBF16Generic},
			{"f16", F16ToF32, f16ToF32Generic, F32ToF16, f32ToF16Generic},
		} {
			f, g := make([]float32, len(h)), make([]float32, len(h))
			c.widen(f, h)
			c.widenG(g, h)
			back := make([]uint16, len(h))
			c.narrow(back, f)
			for i := range f {
				if math.Float32bits(f[i]) != math.Float32bits(g[i]) {
					t.Fatalf("%s %#x is %v, in Go %v", c.name, i, f[i], g[i])
				}
				if back[i] != h[i] && f[i] == f[i] || f[i] != f[i] && back[i]&0x7fff <= h[i]&0x7c00 {
					t.Fatalf("%s %#x came back as %#x", c.name, i, back[i])
				}
			}
			rng := rand.New(rand.NewPCG(7, 8))
			for n := range 70 {
				off := rng.IntN(9)
				src, got, want := make([]float32, off+n), make([]uint16, off+n+1), make([]uint16, off+n)
				for i := range src {
					src[i] = math.Float32frombits(rng.Uint32())
					if rng.IntN(2) == 0 { // ties, and numbers representable in 16 bits
						src[i] = math.Float32frombits(math.Float32bits(float32(rng.NormFloat64()*math.Exp(6*rng.NormFloat64())))&^0xfff | 0x8000*uint32(rng.IntN(2)))
					}
				}
				got[off+n] = 77
				c.narrow(got[off:off+n], src[off:])
				c.narG(want[off:], src[off:])
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("%v to %s: %#x, in Go %#x", src[i], c.name, got[i], want[i])
					}
				}
				if got[off+n] != 77 {
					t.Fatalf("%s wrote past its end", c.name)
				}
			}
		}
	})
}

func TestConversionsRoundToNearestEven(t *testing.T) {
	nan := math.Float32frombits(0x7f800001)
	for _, c := range []struct {
		in        float32
		bf16, f16 uint16
	}{
		{0, 0, 0}, {1, 0x3f80, 0x3c00}, {-2, 0xc000, 0xc000},
		{1 + 1.0/256, 0x3f80, 0x3c04}, {1 + 3.0/256, 0x3f82, 0x3c0c}, {1 + 1.0/2048, 0x3f80, 0x3c00}, {1 + 3.0/2048, 0x3f80, 0x3c02},
		{65504, 0x4780, 0x7bff}, {65519.996, 0x4780, 0x7bff}, {65520, 0x4780, 0x7c00}, {1e30, 0x714a, 0x7c00},
		{0x1p-24, 0x3380, 1}, {0x1p-25, 0x3300, 0}, {0x1.8p-25, 0x3340, 1}, {0x1.8p-24, 0x33c0, 2}, {0x1.ffcp-15, 0x3880, 0x0400},
		{float32(math.Inf(-1)), 0xff80, 0xfc00}, {math.MaxFloat32, 0x7f80, 0x7c00}, {nan, 0x7fc0, 0x7e00},
	} {
		b, h := []uint16{0}, []uint16{0}
		F32ToBF16(b, []float32{c.in})
		F32ToF16(h, []float32{c.in})
		if b[0] != c.bf16 || h[0] != c.f16 {
			t.Errorf("%v is %#x in bf16, want %#x, and %#x in f16, want %#x", c.in, b[0], c.bf16, h[0], c.f16)
		}
	}
}
