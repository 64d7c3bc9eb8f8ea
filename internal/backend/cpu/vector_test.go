package cpu

import (
	"math"
	"slices"
	"testing"

	"trireme/internal/impl"
	"trireme/tensor"
)

// eachSet runs f on each instruction set. With -short, for the race detector, it runs generic Go, whose reads and writes
// of elements the detector sees, and the best one.
func eachSet(t *testing.T, f func(*testing.T)) {
	levels := impl.Available()
	if testing.Short() {
		levels = slices.Compact([]impl.Level{levels[0], levels[len(levels)-1]})
	}
	for _, l := range levels {
		restore := impl.Use(l)
		t.Run(l.String(), f)
		restore()
	}
}

// oneGoroutine skips a test with -short, for the race detector, that computes on one goroutine.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: one goroutine")
	}
}

func open(t testing.TB, threads int) *Backend {
	t.Helper()
	b, err := New(Options{Threads: threads, Reserve: 1 << 32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// random is a tensor of normal elements with deviation std.
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
