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
	const n = 300_000 // more than a chunk
	x := b.New(tensor.Params, tensor.F32, n)
	s := []tensor.Shard{{Name: "w", DType: tensor.F32, Shape: tensor.Shape{n + 10}, First: 10, Count: n, Data: x}}
	values := tensor.Host[float32](x)
	clear(values)
	if err := checkpoint.CheckFinite(context.Background(), s, checkpoint.Alone{}, b); err != nil {
		t.Fatal(err)
	}
	values[n-2] = float32(math.Inf(1))
	err = checkpoint.CheckFinite(context.Background(), s, checkpoint.Alone{}, b)
	if !errors.Is(err, checkpoint.ErrNotFinite) || !strings.Contains(err.Error(), "w [300010]: element 300008 is not finite") {
		t.Errorf("%v", err)
	}
}
