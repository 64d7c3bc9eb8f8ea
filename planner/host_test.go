package planner

import (
	"context"
	"testing"

	"trireme/device"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

// Offloading to the host moves exactly the offloaded bytes, and the device's peak falls by them.
func TestHost(t *testing.T) {
	for _, strategy := range parallel.StrategyNames() {
		for _, param := range []string{"float32", "bfloat16"} {
			for _, ranks := range []int{1, 4} {
				at := func(optimizer, params parallel.OffloadDevice, apart bool) Plan {
					j := job(t, ranks, func(c *train.Config) {
						c.Device.Name, c.Parallel.Strategy, c.Precision.ParamDType = device.CUDA, strategy, param
						c.Offload.Optimizer.Device, c.Offload.Params.Device = optimizer, params
					})
					j.SeparateMemory = apart
					return plan(t, j)
				}
				plain := at(parallel.OffloadNone, parallel.OffloadNone, true)
				if plain.HostBytes() != 0 || plain.Memory != at(parallel.OffloadCPU, parallel.OffloadCPU, false).Memory {
					t.Errorf("%s in %s on %d: host memory without offload, or without separate memory", strategy, param, ranks)
				}
				moved := []tensor.Category{tensor.Optimizer, tensor.Master, tensor.Grads}
				p := at(parallel.OffloadCPU, parallel.OffloadNone, true)
				sum := int64(0)
				for _, c := range moved {
					if plain.Memory.Live[c] != plain.Memory.Peak[c] {
						t.Errorf("%s in %s on %d: %v changes in a step", strategy, param, ranks, c)
					}
					want := plain.Memory.Live[c]
					if c == tensor.Master && want == 0 {
						if want = plain.Memory.Live[tensor.Optimizer] / 2; p.Host[c] != want {
							t.Errorf("%s in %s on %d: masters of %d bytes on the host, want %d", strategy, param, ranks, p.Host[c], want)
						}
						continue
					}
					sum += want
					if p.Host[c] != want || p.Memory.Live[c] != 0 || p.Memory.Peak[c] != 0 {
						t.Errorf("%s in %s on %d: %v has %d bytes on the host and %d on the device, want %d and 0", strategy, param, ranks, c, p.Host[c], p.Memory.Live[c], want)
					}
				}
				if got := plain.Memory.PeakTotal - p.Memory.PeakTotal; got != sum {
					t.Errorf("%s in %s on %d: the peak falls by %d bytes, want %d", strategy, param, ranks, got, sum)
				}
				both := at(parallel.OffloadCPU, parallel.OffloadCPU, true)
				s, err := parallel.ParseStrategy(strategy)
				if err != nil {
					t.Fatal(err)
				}
				want := int64(0)
				if s.Params {
					want = plain.Memory.Live[tensor.Params]
				}
				if both.Host[tensor.Params] != want || s.Params && both.Memory.PeakTotal >= p.Memory.PeakTotal+int64(5<<20) {
					t.Errorf("%s in %s on %d: parameters have %d bytes on the host, want %d; the peak is %d, %d with them on the device",
						strategy, param, ranks, both.Host[tensor.Params], want, both.Memory.PeakTotal, p.Memory.PeakTotal)
				}
				mixed := at(parallel.OffloadNVMe, parallel.OffloadCPU, true)
				if mixed.Host[tensor.Params] != want || mixed.HostBytes() != want || mixed.Memory.Live[tensor.Offloaded] == 0 {
					t.Errorf("%s in %s on %d: with the optimizer in a file %d bytes are on the host, want %d", strategy, param, ranks, mixed.HostBytes(), want)
				}
			}
		}
	}
	hosted := job(t, 4, func(c *train.Config) { c.Offload.Optimizer.Device = parallel.OffloadCPU })
	hosted.SeparateMemory = true
	// The limit applies to the device.
	p := plan(t, hosted)
	o, err := hosted.option(context.Background(), "full_shard", p.Memory.PeakTotal)
	if err != nil || !o.Fits {
		t.Errorf("it does not fit in its own plan: %v", err)
	}
}

// Master weights on the host are float32 for every optimizer.
func TestHostOfOtherOptimizers(t *testing.T) {
	for _, name := range []string{"adamw", "sgd", "lion", "adamw_bf16", "muon", "adafactor"} {
		j := job(t, 4, func(c *train.Config) {
			c.Offload.Optimizer.Device, c.Training.Optimizer = parallel.OffloadCPU, optim.Config{"name": name}
		})
		j.SeparateMemory = true
		if p := plan(t, j); p.Host[tensor.Master] != p.Memory.Live[tensor.Params] {
			t.Errorf("%s: masters of %d bytes on the host, parameters of %d on the device", name, p.Host[tensor.Master], p.Memory.Live[tensor.Params])
		}
	}
}
