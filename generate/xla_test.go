package generate

import (
	"fmt"
	"math"
	"testing"

	"trireme/collective"
	"trireme/internal/backend/xla"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
	"trireme/tensor"
)

// XLA's logits are those of the cpu backend within 1e-4 of the largest, 0.15 in bfloat16, also after the text has
// outgrown the model's positions. A cache in bfloat16 below float32 activations may round a key or value to its neighbor: 0.01.
func TestXLA(t *testing.T) {
	plugin, err := pjrt.Load(pjrttest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range configs {
		dt, cached, tol := tensor.F32, tensor.F32, types[tensor.F32]
		switch name {
		case "llama":
			dt, cached, tol = tensor.BF16, tensor.BF16, types[tensor.BF16]
		case "qwen3":
			cached, tol = tensor.BF16, 0.01
		}
		t.Run(fmt.Sprint(name, " in ", dt, " and ", cached), func(t *testing.T) {
			pc, err := plugin.NewClient([]pjrt.Option{{Name: "cpu_device_count", Value: int64(1)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			client := xla.NewClient(pc, []int{pc.Devices()[0].ID()}, nil)
			t.Cleanup(func() { client.Close(); pc.Close() })
			cpu, direct := open(t, config, dt)
			var b *xla.Backend
			_, compiled := openOn(t, config, dt, func(host tensor.Backend, w collective.World) (tensor.Backend, collective.World) {
				b = xla.New(client, pc.Devices()[0], host.(xla.Host))
				return b, b.World(w)
			})
			want, got := newDecoder(cpu, direct, dt, cached, 20, 20, 9), newDecoder(b, compiled, dt, cached, 20, 20, 9)
			defer want.close()
			defer got.close()
			for ids := []int32{7, 3, 49, 0, 7, 12}; len(ids) < 30; ids = append(ids, int32(len(ids)*17%50)) {
				x, err := want.logits(ids)
				if err != nil {
					t.Fatal(err)
				}
				y, err := got.logits(ids)
				if err != nil {
					t.Fatal(err)
				}
				largest := 0.0
				for i := range x {
					largest = max(largest, math.Abs(float64(x[i])))
				}
				for i := range x {
					if d := math.Abs(float64(x[i] - y[i])); !(d <= tol*largest) {
						t.Fatalf("after %d tokens, logit %d is %v, want %v", len(ids), i, y[i], x[i])
					}
				}
			}
		})
	}
}
