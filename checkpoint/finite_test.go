package checkpoint_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/tensor"
)

func TestNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		b        []byte
		dt       tensor.DType
		n, first int
	}{
		{nil, tensor.F32, 0, 0},
		{tensor.AsBytes([]float32{0, math.MaxFloat32, -1e-45}), tensor.F32, 0, 0},
		{tensor.AsBytes([]float32{1, nan, inf}), tensor.F32, 2, 1},
		{tensor.AsBytes([]uint16{0x7f7f, 0x0001, 0xff80}), tensor.BF16, 1, 2},
		{tensor.AsBytes([]uint16{0x7bff, 0x7c00, 0x7e01}), tensor.F16, 2, 1},
		{tensor.AsBytes([]float32{nan, 1, inf, nan, math.MaxFloat32}), tensor.F32, 3, 0},
		{tensor.AsBytes([]uint16{0x7f7f, 0xff7f, 0xffff, 0x7f80, 1, 2, 0x7f81}), tensor.BF16, 3, 2},
		{tensor.AsBytes([]uint16{0xfbff, 1, 2, 3, 4, 5, 0xfc01}), tensor.F16, 1, 6},
		{tensor.AsBytes([]int32{-1}), tensor.I32, 0, 0},
	} {
		if n, first := checkpoint.NotFinite(c.b, c.dt); n != c.n || first != c.first {
			t.Errorf("% x of %v: %d from %d, want %d from %d", c.b, c.dt, n, first, c.n, c.first)
		}
	}
}

func TestCheckFinite(t *testing.T) {
	b, err := device.Open("cpu", device.Options{Reserve: 1 << 26})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const n = 300_000 // more than one chunk
	x := b.New(tensor.Params, tensor.F32, n)
	s := []tensor.Shard{{Name: "w", DType: tensor.F32, Shape: tensor.Shape{2, n}, Box: tensor.Box{Offsets: []int{1, 0}, Sizes: tensor.Shape{1, n}}, Data: x}}
	values := tensor.Host[float32](x)
	clear(values)
	if err := checkpoint.CheckFinite(context.Background(), s, checkpoint.SingleProcess{}, b); err != nil {
		t.Fatal(err)
	}
	values[n-2] = float32(math.Inf(1))
	err = checkpoint.CheckFinite(context.Background(), s, checkpoint.SingleProcess{}, b)
	if !errors.Is(err, checkpoint.ErrNotFinite) || !strings.Contains(err.Error(), "w [2 300000]: element [1 299998] is not finite") {
		t.Errorf("%v", err)
	}
}

// One or two values at every position of rows of every length.
func TestNotFiniteOfLengths(t *testing.T) {
	nan := float32(math.NaN())
	for n := range 70 {
		v := make([]float32, n)
		for i := range n {
			v[i] = nan
			if got, first := checkpoint.NotFinite(tensor.AsBytes(v), tensor.F32); got != 1 || first != i {
				t.Fatalf("%d of %d: %d from %d", i, n, got, first)
			}
			v[n-1] = nan
			if got, first := checkpoint.NotFinite(tensor.AsBytes(v), tensor.F32); got != min(2, n-i) || first != i {
				t.Fatalf("%d and the last of %d: %d from %d", i, n, got, first)
			}
			v[i], v[n-1] = 0, math.MaxFloat32
		}
	}
}

// Every half, at every offset in 8 bytes.
func TestNotFiniteOfAllHalves(t *testing.T) {
	for dt, exponent := range map[tensor.DType]uint16{tensor.BF16: 0x7f80, tensor.F16: 0x7c00} {
		for x := range 1 << 16 {
			v := make([]uint16, 7)
			v[x%7] = uint16(x)
			want, at := 0, 0
			if uint16(x)&exponent == exponent {
				want, at = 1, x%7
			}
			if n, first := checkpoint.NotFinite(tensor.AsBytes(v), dt); n != want || first != at {
				t.Fatalf("%v %#x: %d from %d", dt, x, n, first)
			}
		}
	}
}
