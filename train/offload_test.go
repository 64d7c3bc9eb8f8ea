package train_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

// offloaded offloads all a strategy allows, in the smallest sub-groups.
func offloaded(strategy string) parallel.Offload {
	o := parallel.DefaultOffload()
	o.Optimizer.Device, o.Optimizer.SubGroupSize = parallel.OffloadNVMe, 1
	if s, err := parallel.ParseStrategy(strategy); err == nil && s.Params {
		o.Params.Device = parallel.OffloadNVMe
	}
	return o
}

func elements(x *tensor.Tensor) []float32 {
	if x.Buffer().Backing == nil {
		return tensor.Host[float32](x)
	}
	out := make([]float32, x.Elems())
	if tensor.Fetch(tensor.AsBytes(out), x) != nil {
		return nil
	}
	return out
}

// Every family and precision has the same bits with state in files as in memory, in any world. In float16
// the first steps overflow.
func TestOffloadLeavesBits(t *testing.T) {
	ways := []struct {
		strategy string
		world    int
	}{{"full_shard", 1}, {"zero_1", 2}, {"full_shard", 4}, {"hybrid_shard", 4}, {"shard_grad_op", 2}, {"no_shard", 1}}
	variant := 0
	for _, network := range slices.Sorted(maps.Keys(deep)) {
		for _, param := range []string{"float32", "bfloat16", "float16"} {
			cfg := train.Default()
			cfg.OutputDir = t.TempDir()
			cfg.Precision.ParamDType = param
			want := trained(t, network, cfg, 1)
			for range 2 {
				way := ways[variant%len(ways)]
				variant++
				cfg.Parallel.Strategy, cfg.Offload = way.strategy, offloaded(way.strategy)
				if variant%3 == 0 {
					cfg.Recompute = train.Recompute{Enabled: true, Store: "disk"}
				}
				if diff := trained(t, network, cfg, way.world).differs(want); diff != "" {
					t.Errorf("%s in %s, %s on %d: %s", network, param, way.strategy, way.world, fmt.Sprint(diff))
				}
			}
		}
	}
}
