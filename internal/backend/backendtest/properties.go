package backendtest

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/tensor"
)

// put makes a tensor on the backend.
func (s *suite) put(dt tensor.DType, v []float64) *tensor.Tensor {
	x := s.b.New(tensor.Activations, dt, len(v))
	s.b.Upload(x, encode(dt, v))
	return x
}

// program runs operations, as one program if the backend compiles.
func (s *suite) program(t *testing.T, operations func()) {
	t.Helper()
	if s.Program == nil {
		operations()
	} else if err := s.Program(operations); err != nil {
		t.Fatal(err)
	}
}

// bits are a tensor's bytes.
func (s *suite) bits(x *tensor.Tensor) []byte {
	out := make([]byte, x.Bytes())
	s.b.Download(out, x)
	return out
}

// normal checks the distribution, and that an element depends on key and index only.
func (s *suite) normal(t *testing.T) {
	if s.CountsOnly {
		return
	}
	const n = 20000
	key := tensor.RandKey{Seed: 3, Stream: 1 << 50}
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
		x := s.put(dt, make([]float64, n))
		s.b.Normal(x, key, 100, 2)
		whole := s.bits(x)
		m1, m2 := 0.0, 0.0
		for _, v := range decode(dt, whole) {
			m1, m2 = m1+v/n, m2+v*v/n
		}
		if math.Abs(m1) > 0.06 || math.Abs(m2-4) > 0.2 {
			t.Errorf("%v: mean %v, variance %v of a standard deviation of 2", dt, m1, m2)
		}
		for _, part := range [][2]int{{0, 1}, {1, 2}, {777, 1999}, {n - 3, n}} {
			y := s.put(dt, make([]float64, part[1]-part[0]))
			s.b.Normal(y, key, int64(100+part[0]), 2)
			if !bytes.Equal(s.bits(y), whole[part[0]*dt.Size():part[1]*dt.Size()]) {
				t.Errorf("%v: elements %v computed separately differ", dt, part)
			}
			y.Release()
		}
		s.b.Normal(x, tensor.RandKey{Seed: 3, Stream: 1<<50 + 1}, 100, 2)
		if bytes.Equal(s.bits(x), whole) {
			t.Errorf("%v: two streams are equal", dt)
		}
		x.Release()
		s.digest(t, whole)
	}
}

// recompute checks that a recomputed norm has the same bits, including sums stored in 16 bits.
func (s *suite) recompute(t *testing.T) {
	if s.CountsOnly {
		return
	}
	const n, d = 9, 45
	rng := rand.New(rand.NewPCG(9, 9))
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
		var all []*tensor.Tensor
		fresh := func(dt tensor.DType, shape ...int) *tensor.Tensor {
			v := make([]float64, tensor.Shape(shape).Elems())
			for i := range v {
				v[i] = rng.NormFloat64()
			}
			x := s.put(dt, v)
			all = append(all, x)
			return x.Reshape(shape...)
		}
		x, res, sum, y, z := fresh(dt, n, d), fresh(dt, n, d), fresh(dt, n, d), fresh(dt, n, d), fresh(dt, n, d)
		w, bias, mean, rstd := fresh(dt, d), fresh(dt, d), fresh(tensor.F32, n), fresh(tensor.F32, n)
		s.b.RMSNorm(y, rstd, sum, x, res, w, 1e-5)
		s.b.RecomputeRMSNorm(z, sum, rstd, w)
		if !s.same("rms norm", dt, s.bits(z), s.bits(y)) {
			t.Errorf("rms norm of %v: recomputed bits differ", dt)
		}
		s.b.LayerNorm(y, mean, rstd, sum, x, res, w, bias, 1e-5)
		s.b.RecomputeLayerNorm(z, sum, mean, rstd, w, bias)
		if !s.same("layer norm", dt, s.bits(z), s.bits(y)) {
			t.Errorf("layer norm of %v: recomputed bits differ", dt)
		}
		for _, x := range all {
			x.Release()
		}
	}
}

// exact checks that an accumulator is the sum of all numbers, rounded once, in any order and split.
func (s *suite) exact(t *testing.T) {
	if s.CountsOnly {
		return
	}
	rng := rand.New(rand.NewPCG(10, 10))
	tie := []float64{1 << 53, 1}
	lists := [][]float64{
		{}, {0, math.Copysign(0, -1)}, {1e-5},
		tie, append(tie, 2), append(tie, 0x1p-300), append(tie, -0x1p-300), append(tie, 0x1p-20), append(tie, 0x1p-5), {-1 << 53, -1, -0x1p-200}, {1e90, 1, -1e90, 0x1p-320},
		{1<<32 - 1, 1, 0x1p-352, 5e-324}, {0x1.fffffffffffffp+62, 0x1p63, 3}, {math.Ldexp(1, 319), -math.Ldexp(1, 318)},
		{1, math.Ldexp(1, 320)}, {-math.MaxFloat64}, {2, math.Inf(-1)}, {math.NaN()},
	}
	count, cuts := 50, 3
	if s.Few {
		count, cuts = 4, 1
	}
	for range count {
		v := make([]float64, 1+rng.IntN(300))
		for i := range v {
			v[i] = math.Ldexp(rng.NormFloat64(), rng.IntN(500)-250)
			if i > 0 && rng.IntN(3) == 0 {
				v[i] = -v[rng.IntN(i)]
			}
		}
		lists = append(lists, v)
	}
	for _, v := range lists {
		want, _ := func() (float64, big.Accuracy) {
			sum := new(big.Float).SetPrec(2000)
			for _, x := range v {
				if !(math.Abs(x) < 0x1p320) {
					return math.NaN(), 0
				}
				if math.Abs(x) >= 0x1p-352 { // range of an accumulator
					sum.Add(sum, new(big.Float).SetFloat64(x))
				}
			}
			return sum.Float64()
		}()
		for _, cut := range []int{len(v) / 3, 0, len(v)}[:cuts] {
			acc, other := s.b.New(tensor.Workspace, tensor.I64, tensor.ExactWords), s.b.New(tensor.Workspace, tensor.I64, tensor.ExactWords)
			out, x := s.put(tensor.F64, []float64{9}), s.put(tensor.F64, v)
			s.program(t, func() {
				s.b.Fill(acc, 0)
				s.b.Fill(other, 0)
				s.b.ExactAdd(acc, x.Flat(0, cut))
				s.b.ExactAdd(other, x.Flat(cut, len(v)))
				s.b.Binary(acc, acc, other, tensor.Add) // like an all-reduce
				s.b.ExactValues(out, acc)
			})
			if got := decode(tensor.F64, s.bits(out))[0]; got != want && !(got != got && want != want) {
				t.Errorf("the sum of %v, split at %d, is %v, want %v", v, cut, got, want)
			}
			for _, x := range []*tensor.Tensor{acc, other, out, x} {
				x.Release()
			}
		}
	}
	whole := make([]float64, 200) // integers, so that sums are exact
	want := 0.0
	for i := range whole {
		whole[i] = float64(rng.IntN(9) - 4)
		want += whole[i] * whole[i]
	}
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
		acc, out, x := s.b.New(tensor.Workspace, tensor.I64, tensor.ExactWords), s.put(tensor.F64, []float64{9}), s.put(dt, whole)
		s.b.Fill(acc, 0)
		s.b.ExactSquares(acc, x, nil)
		s.b.ExactValues(out, acc)
		if got := decode(tensor.F64, s.bits(out))[0]; got != want {
			t.Errorf("squares of %v: %v, want %v", dt, got, want)
		}
		acc.Release()
		out.Release()
		x.Release()
	}
}

// bytes checks that an update of 8-bit state is the update of the dequantized state, rounded to
// nearest.
func (s *suite) bytes(t *testing.T) {
	if s.CountsOnly {
		return
	}
	const n = 2*tensor.StateBlock + 44
	rng := rand.New(rand.NewPCG(11, 11))
	scales, put := []float64{0.5, 0x1p-10, 0}, func(dt tensor.DType, v []float64) *tensor.Tensor { return s.put(dt, v) }
	for _, name := range slices.Sorted(maps.Keys(updates)) {
		u := updates[name]
		k := u.rule.States()
		var codes, wide [][]float64
		for i := range k {
			m, _ := tensor.DynamicMap(!tensor.Unsigned(u.rule, i))
			c, w := make([]float64, n), make([]float64, n)
			for j := range c {
				c[j] = float64(rng.IntN(256))
				w[j] = float64(m[int(c[j])]) * scales[j/tensor.StateBlock]
			}
			codes, wide = append(codes, c), append(wide, w)
		}
		values := make([]float64, n)
		for i := range values {
			values[i] = rng.NormFloat64()
		}
		run := func(state []*tensor.Tensor) (p []byte) {
			x, g, ends := put(tensor.F32, values), put(tensor.F32, values), put(tensor.I64, []float64{n})
			hyper, scalars := put(tensor.F64, u.hyper), put(tensor.F64, []float64{2, 1, 0.25, 1, 12})
			s.b.Update(u.rule, x, state, g, ends, hyper.Reshape(1, len(u.hyper)), scalars)
			p = s.bits(x)
			for _, x := range []*tensor.Tensor{x, g, ends, hyper, scalars} {
				x.Release()
			}
			return p
		}
		var narrow, full []*tensor.Tensor
		for i := range k {
			narrow, full = append(narrow, put(tensor.U8, codes[i])), append(full, put(tensor.F32, wide[i]))
		}
		for range k {
			narrow = append(narrow, put(tensor.F32, scales))
		}
		if !s.same("update", tensor.F32, run(narrow), run(full)) {
			t.Errorf("%s: parameters differ from those with float32 state", name)
		}
		for i := range k {
			m, _ := tensor.DynamicMap(!tensor.Unsigned(u.rule, i))
			got, want, by := decode(tensor.U8, s.bits(narrow[i])), decode(tensor.F32, s.bits(full[i])), decode(tensor.F32, s.bits(narrow[k+i]))
			for j := range got {
				scale, least := by[j/tensor.StateBlock], math.Inf(1)
				for _, v := range m {
					least = min(least, math.Abs(float64(v)*scale-want[j]))
				}
				if d := math.Abs(float64(m[int(got[j])])*scale - want[j]); d > least+1e-6*scale {
					t.Errorf("%s: state %d, element %d: byte %v is %v away from %v, another %v", name, i, j, got[j], d, want[j], least)
					break
				}
			}
		}
		for _, x := range append(narrow, full...) {
			x.Release()
		}
	}
}

// shards checks that bits do not depend on the slice of a tensor that an operation gets.
func (s *suite) shards(t *testing.T) {
	if s.CountsOnly {
		return
	}
	const n = 3000
	rng := rand.New(rand.NewPCG(8, 8))
	numbers := func(n int, f func() float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = f()
		}
		return v
	}
	a, b := numbers(n, rng.NormFloat64), numbers(n, rng.NormFloat64)
	positive := numbers(n, rng.Float64)
	scalars := s.put(tensor.F64, []float64{2, 1, 0.25, 1, 12})
	defer scalars.Release()
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
		for name, op := range map[string]func(x, y, z *tensor.Tensor){
			"add":        func(x, y, _ *tensor.Tensor) { s.b.Add(x, x, y) },
			"add scaled": func(x, y, _ *tensor.Tensor) { s.b.AddScaled(x, y, 0.3) },
			"swiglu":     func(x, y, z *tensor.Tensor) { s.b.SwiGLU(z, x, y); s.b.Copy(x, z) },
			"gelu":       func(x, y, z *tensor.Tensor) { s.b.GELU(z, x, true); s.b.GELUBackward(x, y, z, false) },
		} {
			run := func(cuts ...int) []byte {
				x, y, z := s.put(dt, a), s.put(dt, b), s.put(dt, positive)
				defer func() { x.Release(); y.Release(); z.Release() }()
				for i := range cuts[1:] {
					lo, hi := cuts[i], cuts[i+1]
					op(x.Flat(lo, hi), y.Flat(lo, hi), z.Flat(lo, hi))
				}
				return s.bits(x)
			}
			if whole := run(0, n); !s.same(name, dt, run(0, 1, 5, 64, 71, 1500, n-3, n), whole) {
				t.Errorf("%s of %v: parts differ", name, dt)
			}
		}
	}
	for name, u := range updates {
		run := func(cuts ...int) []byte {
			p, m, v, g, w := s.put(tensor.F32, a), s.put(tensor.F32, b), s.put(tensor.F32, positive), s.put(tensor.F32, b), s.put(tensor.F32, a)
			hyper, ends := s.put(tensor.F64, append(append([]float64{}, u.hyper...), u.hyper...)), s.put(tensor.I64, []float64{0, 0})
			defer func() {
				p.Release()
				m.Release()
				v.Release()
				g.Release()
				w.Release()
				hyper.Release()
				ends.Release()
			}()
			for i := range cuts[1:] {
				lo, hi := cuts[i], cuts[i+1]
				s.b.Upload(ends, encode(tensor.I64, []float64{float64((hi - lo) / 2), float64(hi - lo)}))
				s.b.Update(u.rule, p.Flat(lo, hi), []*tensor.Tensor{m.Flat(lo, hi), v.Flat(lo, hi), w.Flat(lo, hi)}[:u.rule.States()], g.Flat(lo, hi), ends, hyper.Reshape(2, len(u.hyper)), scalars)
			}
			return append(append(s.bits(p), s.bits(m)...), s.bits(v)...)
		}
		if !s.same("update", tensor.F32, run(0, 1, 5, 64, 71, 1500, n-3, n), run(0, n)) {
			t.Errorf("update/%s: parts differ", name)
		}
	}
}

// copies checks conversions between float types, to nearest even, and copies of all types.
func (s *suite) copies(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1.5, 65504, 65519, 65520, 1e-8, 6e-8, -3e-5, 1.0 / 3, 257, 258.5, 3e38, 1e-40, math.Inf(1), math.Inf(-1), 1.00390625, 1.01171875}
	floats := []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}
	for _, from := range floats {
		for _, to := range floats {
			for _, gaps := range []bool{false, true} {
				name := fmt.Sprintf("%v to %v, gaps %t", from, to, gaps)
				width, first := len(values), 0
				if gaps {
					width, first = len(values)+4, 3
				}
				x := s.b.New(tensor.Activations, from, 3, width)
				y := s.b.New(tensor.Activations, to, 3, width)
				row := make([]float64, width)
				copy(row[first:], values)
				s.b.Upload(x, encode(from, append(append(append([]float64{}, row...), row...), row...)))
				s.program(t, func() {
					s.b.Fill(y, 9)
					s.b.Copy(y.Cols(first, first+len(values)), x.Cols(first, first+len(values)))
				})
				if !s.CountsOnly {
					got := decode(to, s.bits(y))
					for i, g := range got {
						want, c := 9.0, i%width
						if c >= first && c < first+len(values) {
							want = round(to, round(from, row[c]))
						}
						if g != want || math.Signbit(g) != math.Signbit(want) {
							t.Errorf("%s: element %d is %v, want %v", name, i, g, want)
							break
						}
					}
				}
				x.Release()
				y.Release()
			}
		}
	}
	for _, dt := range []tensor.DType{tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
		x, y := s.put(dt, []float64{1, 2, 3, 200, 5}), s.put(dt, make([]float64, 5))
		s.b.Copy(y, x)
		if !s.CountsOnly && !bytes.Equal(s.bits(x), s.bits(y)) {
			t.Errorf("%v was not copied", dt)
		}
		x.Release()
		y.Release()
	}
}
