package cpu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
	"trireme/tensor"
)

func open(t testing.TB, threads int) *Backend {
	t.Helper()
	b, err := New(Options{Threads: threads, Reserve: 1 << 32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// random makes a tensor with elements of deviation std.
func random(b *Backend, seed uint64, dt tensor.DType, std float64, shape ...int) *tensor.Tensor {
	t := b.New(tensor.Activations, dt, shape...)
	b.Normal(t, tensor.RandKey{Seed: seed}, 0, std)
	return t
}

func ints(b *Backend, v ...int32) *tensor.Tensor {
	t := b.New(tensor.Workspace, tensor.I32, len(v))
	copy(tensor.Host[int32](t), v)
	return t
}

func reals(b *Backend, v ...float64) *tensor.Tensor {
	t := b.New(tensor.Workspace, tensor.F64, len(v))
	copy(tensor.Host[float64](t), v)
	return t
}

// wide reads a tensor as F64.
func wide(b *Backend, t *tensor.Tensor) []float64 {
	f := b.New(tensor.Workspace, tensor.F32, t.Rows(), t.Width())
	b.Copy(f, t)
	out := make([]float64, t.Elems())
	for i, v := range tensor.Host[float32](f) {
		out[i] = float64(v)
	}
	return out
}

// near compares with a tolerance relative to each value and to the largest.
func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	top := 0.0
	for _, w := range want {
		top = max(top, math.Abs(w))
	}
	for i := range want {
		if d := math.Abs(got[i] - want[i]); !(d <= tol*(math.Abs(want[i])+0.1*top)) {
			t.Fatalf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

func tolerance(dts ...tensor.DType) float64 {
	for _, d := range dts {
		if d != tensor.F32 {
			return 2e-2
		}
	}
	return 3e-6
}

var widths = []int{1, 2, 7, 16, 33, 64, 100, 257}

func TestPointwise(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			b := open(t, 2)
			for _, w := range widths {
				x, y, d := random(b, 1, dt, 2, 5, w), random(b, 2, dt, 2, 5, w), random(b, 3, dt, 2, 5, w)
				xs, ys, ds := wide(b, x), wide(b, y), wide(b, d)
				o, o2 := b.New(0, dt, 5, w), b.New(0, dt, 5, w)
				want, want2 := make([]float64, 5*w), make([]float64, 5*w)
				expect := func(name string, f func(i int) (float64, float64), two bool) {
					t.Helper()
					for i := range want {
						want[i], want2[i] = f(i)
					}
					near(t, name, wide(b, o), want, tolerance(dt))
					if two {
						near(t, name+" second", wide(b, o2), want2, tolerance(dt))
					}
				}
				b.Add(o, x, y)
				expect("add", func(i int) (float64, float64) { return xs[i] + ys[i], 0 }, false)
				b.Copy(o, x)
				b.AddScaled(o, y, 0.5)
				expect("add scaled", func(i int) (float64, float64) { return xs[i] + 0.5*ys[i], 0 }, false)
				b.SwiGLU(o, x, y)
				expect("swiglu", func(i int) (float64, float64) { return silu(xs[i]) * ys[i], 0 }, false)
				b.SwiGLUBackward(o, o2, d, x, y)
				expect("swiglu backward", func(i int) (float64, float64) {
					return ds[i] * ys[i] * slope(silu, xs[i]), ds[i] * silu(xs[i])
				}, true)
				for _, tanh := range []bool{true, false} {
					f := gelu(tanh)
					b.GELU(o, x, tanh)
					expect(fmt.Sprint("gelu ", tanh), func(i int) (float64, float64) { return f(xs[i]), 0 }, false)
					b.GELUBackward(o, d, x, tanh)
					expect(fmt.Sprint("gelu backward ", tanh), func(i int) (float64, float64) { return ds[i] * slope(f, xs[i]), 0 }, false)
				}
			}
		}
	})
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func gelu(tanh bool) func(float64) float64 {
	if tanh {
		return func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}
	}
	return func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }
}

// slope is a derivative by differences of the fourth order.
func slope(f func(float64) float64, x float64) float64 {
	const h = 1e-3
	return (8*(f(x+h)-f(x-h)) - (f(x+2*h) - f(x-2*h))) / (12 * h)
}

func TestRope(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		b := open(t, 2)
		for _, e := range []int{2, 6, 16, 32, 64, 128} {
			const n, heads, positions = 7, 3, 4
			cos, sin := random(b, 1, tensor.F32, 1, positions, e/2), random(b, 2, tensor.F32, 1, positions, e/2)
			x := random(b, 3, tensor.F32, 1, n, heads*e+5).Cols(2, 2+heads*e) // gaps
			y := b.New(0, tensor.F32, n, heads*e)
			c, s, xs := wide(b, cos), wide(b, sin), wide(b, x)
			at := []int32{3, 1, 0, 2, 2, 1, 3}
			for _, inverse := range []bool{false, true} {
				b.Rope(y, x, cos, sin, ints(b, at...), e, inverse)
				want := make([]float64, n*heads*e)
				for r, p := range at {
					for h := range heads {
						for i := range e / 2 {
							j := r*heads*e + h*e + i
							cc, ss := c[int(p)*e/2+i], s[int(p)*e/2+i]
							if inverse {
								ss = -ss
							}
							want[j], want[j+e/2] = xs[j]*cc-xs[j+e/2]*ss, xs[j+e/2]*cc+xs[j]*ss
						}
					}
				}
				near(t, "rope", wide(b, y), want, 1e-6)
			}
		}
	})
}

func TestNorms(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			for _, layer := range []bool{false, true} {
				for _, w := range append(widths[2:], 768) {
					testNorm(t, dt, layer, w)
				}
			}
		}
	})
}

func testNorm(t *testing.T, dt tensor.DType, layer bool, w int) {
	const n, eps = 130, 1e-5
	b := open(t, 2)
	x, res, dy := random(b, 1, dt, 2, n, w), random(b, 2, dt, 1, n, w), random(b, 3, dt, 1, n, w)
	gain, bias := random(b, 4, dt, 1, w), random(b, 5, dt, 1, w)
	y, sum, dx := b.New(0, dt, n, w), b.New(0, dt, n, w), b.New(0, dt, n, w)
	mean, rstd := b.New(0, tensor.F32, n), b.New(0, tensor.F32, n)
	dw, db := random(b, 6, dt, 1, w), random(b, 7, dt, 1, w)
	dw0, db0 := wide(b, dw), wide(b, db)
	if layer {
		b.LayerNorm(y, mean, rstd, sum, x, res, gain, bias, eps)
	} else {
		b.RMSNorm(y, rstd, sum, x, res, gain, eps)
	}
	xs, rs, g, bs, in := wide(b, x), wide(b, res), wide(b, gain), wide(b, bias), wide(b, sum)
	wantSum := make([]float64, n*w)
	for i := range wantSum {
		wantSum[i] = xs[i] + rs[i]
	}
	near(t, "sum", in, wantSum, tolerance(dt))
	forward := func(row []float64) []float64 {
		var m, q float64
		if layer {
			for _, v := range row {
				m += v
			}
			m /= float64(w)
		}
		for _, v := range row {
			q += (v - m) * (v - m)
		}
		s := 1 / math.Sqrt(q/float64(w)+eps)
		out := make([]float64, w)
		for i, v := range row {
			out[i] = (v - m) * s * g[i]
			if layer {
				out[i] += bs[i]
			}
		}
		return out
	}
	want := make([]float64, 0, n*w)
	for r := range n {
		want = append(want, forward(in[r*w:][:w])...)
	}
	near(t, "y", wide(b, y), want, 2*tolerance(dt))
	again := b.New(0, dt, n, w)
	if layer {
		b.LayerNormAgain(again, sum, mean, rstd, gain, bias)
		b.LayerNormBackward(dx, dw, db, dy, res, sum, mean, rstd, gain, true)
	} else {
		b.RMSNormAgain(again, sum, rstd, gain)
		b.RMSNormBackward(dx, dw, dy, res, sum, rstd, gain, true)
	}
	if !bytes.Equal(tensor.HostBytes(again), tensor.HostBytes(y)) {
		t.Fatalf("width %d: the second time gave other bits", w)
	}
	// dx of some rows by differences; dw and db by their definition.
	ds, dxs := wide(b, dy), wide(b, dx)
	for _, r := range []int{0, 77, n - 1} {
		wantDX := make([]float64, w)
		row := append([]float64(nil), in[r*w:][:w]...)
		for i := range min(w, 40) {
			wantDX[i] = rs[r*w+i] + slope(func(v float64) float64 {
				old := row[i]
				row[i] = v
				var dot float64
				for k, o := range forward(row) {
					dot += o * ds[r*w+k]
				}
				row[i] = old
				return dot
			}, row[i])
		}
		near(t, fmt.Sprint("dx of width ", w, " row ", r), dxs[r*w:][:min(w, 40)], wantDX[:min(w, 40)], 10*tolerance(dt))
	}
	wantW, wantB := dw0, db0
	for i := range n * w {
		k := i % w
		y := want[i]
		if layer {
			y -= bs[k]
		}
		wantW[k] += ds[i] * y / g[k]
		wantB[k] += ds[i]
	}
	near(t, "dw", wide(b, dw), wantW, 10*tolerance(dt))
	if layer {
		near(t, "db", wide(b, db), wantB, 10*tolerance(dt))
	}
}

func TestEmbedding(t *testing.T) {
	b := open(t, 2)
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
		const n, v, d = 900, 50, 70
		table, dy, y := random(b, 1, dt, 1, v, d), random(b, 2, dt, 1, n, d), b.New(0, tensor.F32, n, d)
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(rand.IntN(v - 1))
		}
		at := ints(b, ids...)
		b.Gather(y, table, at)
		ts, ds, want := wide(b, table), wide(b, dy), make([]float64, n*d)
		grad := append([]float64(nil), ts...)
		for i := range want {
			want[i] = ts[int(ids[i/d])*d+i%d]
			grad[int(ids[i/d])*d+i%d] += ds[i]
		}
		near(t, "embedding", wide(b, y), want, 0)
		dtable := b.New(0, dt, v, d)
		b.Copy(dtable, table)
		b.ScatterAdd(dtable, dy, at, tensor.NoPadding, true)
		near(t, "embedding backward", wide(b, dtable), grad, 5*tolerance(dt))
		fresh := b.New(0, dt, v, d)
		b.Fill(fresh, 3)
		b.ScatterAdd(fresh, dy, at, tensor.NoPadding, false)
		for i := range grad {
			grad[i] -= ts[i]
		}
		near(t, "embedding backward", wide(b, fresh), grad, 5*tolerance(dt))
		const padding = 7
		b.ScatterAdd(fresh, dy, at, padding, false)
		clear(grad[padding*d : (padding+1)*d])
		near(t, "embedding backward with padding", wide(b, fresh), grad, 5*tolerance(dt))
	}
}

func TestCrossEntropy(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		b := open(t, 2)
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			for _, v := range []int{2, 17, 1000, 5003} {
				const n = 9
				logits := random(b, uint64(v), dt, 3, n, v)
				labels := []int32{0, 1, -100, int32(v - 1), 1, -1, 0, 1, 0}
				xs, want, loss := wide(b, logits), make([]float64, n*v), 1.5
				for r := range n {
					if labels[r] < 0 {
						continue
					}
					var s float64
					row := xs[r*v:][:v]
					for _, x := range row {
						s += math.Exp(x)
					}
					loss += math.Log(s) - row[labels[r]]
					for i, x := range row {
						want[r*v+i] = math.Exp(x) / s
					}
					want[r*v+int(labels[r])]--
				}
				copyOf := b.New(0, dt, n, v)
				b.Copy(copyOf, logits)
				l := reals(b, 1.5)
				b.CrossEntropy(l, logits, ints(b, labels...), true)
				near(t, "loss", tensor.Host[float64](l), []float64{loss}, 2e-6)
				near(t, "gradient", wide(b, logits), want, tolerance(dt))
				l2 := reals(b, 1.5)
				b.CrossEntropy(l2, copyOf, ints(b, labels...), false)
				if got, want := tensor.Host[float64](l2)[0], tensor.Host[float64](l)[0]; got != want {
					t.Errorf("loss without gradient %v, with it %v", got, want)
				}
			}
		}
		defer func() {
			if recover() == nil {
				t.Error("a label beyond the vocabulary was taken")
			}
		}()
		b.CrossEntropy(reals(b, 0), random(b, 1, tensor.F32, 1, 1, 5), ints(b, 5), true)
	})
}
