package xla_test

import (
	"slices"
	"testing"

	"trireme/tensor"
)

// Zeros take no memory of the host until something reads them there, and are zeros for programs and readers.
func TestZeros(t *testing.T) {
	b := open(t, 1)[0]
	const n = 1 << 10
	host := func() int64 { return b.Host().Meter().Read().Live[tensor.Optimizer] }
	dirty := b.New(tensor.Optimizer, tensor.F32, n)
	b.Fill(dirty, 7)
	dirty.Release() // its memory on the host may be the next one's
	x, y := b.New(tensor.Optimizer, tensor.F32, n), b.New(tensor.Optimizer, tensor.F32, n)
	for _, half := range []*tensor.Tensor{x.Flat(0, n/2), x.Flat(n/2, n), y} {
		b.Fill(half, 0)
	}
	if got := host(); got != 0 {
		t.Errorf("%d bytes on the host", got)
	}
	read := func(x *tensor.Tensor) []float32 {
		return tensor.FromBytes[float32](tensor.DownloadAsync(b, x)())
	}
	if got := read(y); slices.ContainsFunc(got, func(v float32) bool { return v != 0 }) {
		t.Errorf("y is %v", got[:8])
	}
	b.Fill(y.Flat(0, 1), 5) // beside zeros
	b.Fill(y.Flat(1, 2), 0)
	if err := b.Compile(false, func() error { b.Add(y, x, y); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := read(y); got[0] != 5 || slices.ContainsFunc(got[1:], func(v float32) bool { return v != 0 }) {
		t.Errorf("the sum is %v", got[:8])
	}
	b.Fill(x, 3)
	b.Fill(x.Flat(0, 2), 0)
	if got := read(x); got[0] != 0 || got[1] != 0 || got[2] != 3 {
		t.Errorf("x is %v", got[:8])
	}
	x.Release()
	y.Release()
}
