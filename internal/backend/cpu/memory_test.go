package cpu

import (
	"bytes"
	"math"
	"testing"

	"trireme/tensor"
)

func TestCopyStrided(t *testing.T) {
	eachSet(t, func(t *testing.T) {
		b := open(t, 2)
		for _, from := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
			for _, to := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
				src := random(b, 1, from, 1, 30, 1500).Cols(7, 1400)
				dst := b.New(0, to, 30, 1410)
				b.Fill(dst, 9)
				b.Copy(dst.Cols(3, 1396), src)
				got, want := wide(b, dst), wide(b, src)
				for r := range 30 {
					for c := range 1410 {
						w := 9.0
						if c >= 3 && c < 1396 {
							w = want[r*1393+c-3]
						}
						tol := 1e-7
						if to != tensor.F32 && from != to {
							tol = 1.0 / 256
						}
						if d := math.Abs(got[r*1410+c] - w); d > tol*math.Abs(w)+1e-7 {
							t.Fatalf("%v to %v: [%d %d] = %v, want %v", from, to, r, c, got[r*1410+c], w)
						}
					}
				}
			}
		}
		for _, dt := range []tensor.DType{tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
			x, y := b.New(0, dt, 40000), b.New(0, dt, 200, 200)
			b.Fill(x, 5)
			b.Copy(y, x)
			if !bytes.Equal(tensor.HostBytes(x), tensor.HostBytes(y)) {
				t.Errorf("%v was not copied", dt)
			}
		}
	})
}

func TestNormalDependsOnKeyAndIndexOnly(t *testing.T) {
	b := open(t, 2)
	const n = 100003
	key := tensor.RandKey{Seed: 5, Stream: 1 << 40}
	whole := b.New(0, tensor.F32, n)
	b.Normal(whole, key, 0, 2)
	part := b.New(0, tensor.F32, 5000)
	for _, first := range []int{1, 2, 999, 50001} {
		b.Normal(part, key, int64(first), 2)
		if !bytes.Equal(tensor.HostBytes(part), tensor.HostBytes(whole.Flat(first, first+5000))) {
			t.Fatalf("the part from %d differs", first)
		}
	}
	var m1, m2, m3, m4 float64
	for _, v := range wide(b, whole) {
		m1, m2, m3, m4 = m1+v/n, m2+v*v/n, m3+v*v*v/n, m4+v*v*v*v/n
	}
	for i, c := range []struct{ got, want, tol float64 }{{m1, 0, .03}, {m2, 4, .1}, {m3, 0, .5}, {m4, 48, 2.5}} {
		if math.Abs(c.got-c.want) > c.tol {
			t.Errorf("moment %d is %v, want %v", i+1, c.got, c.want)
		}
	}
	b.Normal(part, tensor.RandKey{Seed: 5}, 0, 2)
	if bytes.Equal(tensor.HostBytes(part), tensor.HostBytes(whole.Flat(0, 5000))) {
		t.Error("two streams are the same")
	}
}

// TestThreadsDoNotChangeBits runs reductions and tiled operations on 1 to 5 threads.
func TestThreadsDoNotChangeBits(t *testing.T) {
	eachSet(t, func(t *testing.T) {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			var want []byte
			for threads := 1; threads <= 5; threads++ {
				got := manyOperations(open(t, threads), dt)
				if threads == 1 {
					want = got
				} else if !bytes.Equal(got, want) {
					t.Fatalf("%v: bits of %d threads differ from 1", dt, threads)
				}
			}
		}
	})
}

func manyOperations(b *Backend, dt tensor.DType) []byte {
	const n, d, v = 300, 333, 1000
	var out []byte
	keep := func(ts ...*tensor.Tensor) {
		for _, t := range ts {
			out = append(out, tensor.HostBytes(t)...)
		}
	}
	x, y, g, w := random(b, 1, dt, 1, n, d), random(b, 2, dt, 1, n, d), random(b, 3, dt, 1, n, d), random(b, 4, dt, 1, d)
	o, o2, dw := b.New(0, dt, n, d), b.New(0, dt, n, d), b.New(0, dt, d)
	rstd, mean := b.New(0, tensor.F32, n), b.New(0, tensor.F32, n)
	b.SwiGLUBackward(o, o2, x, y, g)
	keep(o, o2)
	b.AddScaled(o, g, 0.3)
	b.RMSNorm(o, rstd, o2, x, y, w, 1e-5)
	keep(o, o2, rstd)
	b.RMSNormBackward(o, dw, g, nil, x, rstd, w, false)
	keep(o, dw)
	b.LayerNorm(o, mean, rstd, nil, x, nil, w, w, 1e-5)
	keep(o, mean, rstd)
	b.LayerNormBackward(o, dw, w, g, y, x, mean, rstd, w, false)
	keep(o, dw)
	at := make([]int32, n)
	for i := range at {
		at[i] = int32(i * 7 % 50)
	}
	ids := ints(b, at...)
	table := random(b, 5, dt, 1, v, d)
	b.ScatterAdd(table, g, ids, tensor.NoPadding, true)
	keep(table)
	logits, loss := random(b, 6, dt, 2, n, v), reals(b, 0)
	b.CrossEntropy(loss, logits, ids, true)
	keep(logits, loss)
	acc := b.New(0, tensor.I64, tensor.ExactWords)
	b.Fill(acc, 0)
	b.ExactSquares(acc, logits, nil)
	zero, one := b.New(0, tensor.I64, tensor.ExactWords), b.New(0, tensor.I64, 1)
	b.Fill(zero, 0)
	b.Fill(one, 1)
	s := b.New(0, tensor.F64, tensor.ScalarCount)
	b.StepScalars(s, acc, zero, one, reals(b, 1), nil)
	keep(s)
	p, m, q := random(b, 7, tensor.F32, 1, n, d), random(b, 8, tensor.F32, 1, n, d), b.New(0, tensor.F32, n, d)
	b.Fill(q, 1)
	adamw(b, p, m, q, g, reals(b, 1e-3, 0.1, 0.1, 0.1), s)
	keep(p, m, q)
	return out
}

// TestAllocationsDoNotGrow checks that Go heap allocations do not depend on the number of rows.
func TestAllocationsDoNotGrow(t *testing.T) {
	b := open(t, 2)
	count := func(dt tensor.DType, n int) float64 {
		const d = 96
		x, y, z, w := random(b, 1, dt, 1, n, d), random(b, 2, dt, 1, n, d), random(b, 3, dt, 1, n, d), random(b, 4, dt, 1, d)
		rstd, loss, ids := b.New(0, tensor.F32, n), reals(b, 0), ints(b, make([]int32, n)...)
		return testing.AllocsPerRun(5, func() {
			b.Add(x, y, z)
			b.SwiGLU(x, y, z)
			b.RMSNorm(x, rstd, z, y, x, w, 1e-5)
			b.RMSNormBackward(x, w, y, z, z, rstd, w, false)
			b.LayerNormBackward(x, w, w, y, z, z, rstd, rstd, w, false)
			b.ScatterAdd(x, y, ids, tensor.NoPadding, true)
			b.CrossEntropy(loss, x, ids, true)
			b.Normal(x, tensor.RandKey{}, 0, 1)
		})
	}
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
		if few, many := count(dt, 1000), count(dt, 8000); many > few+2 {
			t.Errorf("%v: %v allocations for 1000 rows, %v for 8000", dt, few, many)
		}
	}
}
