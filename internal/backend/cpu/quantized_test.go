package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/tensor"
)

// TestQuantizeZeros checks that a block of zeros gets bytes of 0, whatever it held before.
func TestQuantizeZeros(t *testing.T) {
	e := &quantized{make([]uint8, 300), make([]float32, 2), dynamic(true)}
	x := make([]float32, 300)
	x[3], x[299] = -2, 1
	e.store(0, x)
	clear(x)
	e.store(0, x)
	for i, b := range e.bytes {
		if b != 0 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	if e.load(0, x); e.scales[0] != 0 || e.scales[1] != 0 || x[3] != 0 {
		t.Errorf("scales %v, element %v", e.scales, x[3])
	}
}

// TestNearest compares the table search with the nearest of all 256 numbers.
func TestNearest(t *testing.T) {
	oneGoroutine(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, signed := range []bool{false, true} {
		m := dynamic(signed)
		try := func(x float32) {
			got := m.value[m.nearest(x)]
			for _, v := range m.value {
				if d, best := math.Abs(float64(v)-float64(x)), math.Abs(float64(got)-float64(x)); d < best-1e-6*math.Abs(float64(x)) {
					t.Fatalf("signed %v: %v rounds to %v, but %v is nearer", signed, x, got, v)
				}
			}
		}
		for k := range 256 {
			for _, x := range []float32{m.value[k], m.above[k]} {
				for _, y := range []float32{math.Nextafter32(x, -2), x, math.Nextafter32(x, 2)} {
					if (signed || y >= 0) && math.Abs(float64(y)) <= 1 {
						try(y)
					}
				}
			}
		}
		for range 20_000 {
			x := float32(math.Exp2(-26 * rng.Float64()))
			if try(x); signed {
				try(-x)
			}
		}
		if m.nearest(0) != 0 || m.nearest(float32(math.Copysign(0, -1))) != 0 {
			t.Errorf("signed %v: 0 is byte %d, -0 byte %d", signed, m.nearest(0), m.nearest(float32(math.Copysign(0, -1))))
		}
	}
}

// TestAverageWithoutDecay checks that an average with weight 1 is the parameters, to the bit.
func TestAverageWithoutDecay(t *testing.T) {
	b := open(t, 1)
	p, a := b.New(tensor.Params, tensor.F32, 4), b.New(tensor.Optimizer, tensor.F32, 4)
	want := []float32{1e-3, 0.1, -3, 7e5}
	b.Upload(p, tensor.AsBytes(want))
	b.Upload(a, tensor.AsBytes([]float32{3e4, -5, 1e-7, 0.3}))
	ends, scalars := b.New(tensor.Workspace, tensor.I64, 1), b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
	b.Upload(ends, tensor.AsBytes([]int64{4}))
	b.Fill(scalars, 1)
	hyper := b.New(tensor.Workspace, tensor.F64, 1, tensor.AverageCount)
	b.Fill(hyper, 0)
	b.Fill(hyper.Cols(tensor.AverageWeight, tensor.AverageWeight+1), 1)
	b.Update(tensor.Average{}, p, []*tensor.Tensor{a}, p, ends, hyper, scalars)
	if got := tensor.Host[float32](a); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
