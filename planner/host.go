package planner

import (
	"context"

	"trireme/parallel"
	"trireme/tensor"
)

// onDevice is the job as a device with a memory of its own runs it: parameters that rest on the host
// come to it unit by unit, as those that rest in a file do. Parameters that a strategy keeps whole
// stay.
func (j Job) onDevice() Job {
	if p := &j.Config.Offload.Params; p.Device == parallel.OffloadCPU {
		p.Device = parallel.OffloadNone
		if s, err := parallel.ParseStrategy(j.Config.Parallel.Strategy); err == nil && s.Params {
			p.Device = parallel.OffloadNVMe
		}
	}
	return j
}

// splitHost moves the memory of a plan that lies on the host from p.Memory to p.Host.
//
// An optimizer that is offloaded to the host computes there, as DeepSpeed's and FSDP's do: the host
// has its state, the float32 masters and the gradients. In float32, parameters that stay on the
// device have a master on the host besides.
func (j Job) splitHost(ctx context.Context, rank, accumulation int, p Plan) (Plan, error) {
	o := j.Config.Offload
	if own := j.onDevice().Config.Offload; own.Params.Device == parallel.OffloadNVMe && o.Params.Device == parallel.OffloadCPU {
		files := int64(0)
		if o.Optimizer.Device == parallel.OffloadNVMe { // both lie in Offloaded
			j.Config.Offload.Params.Device = parallel.OffloadNone
			without, err := j.step(ctx, rank, accumulation)
			if err != nil {
				return p, err
			}
			files = without.Memory.Live[tensor.Offloaded]
		}
		n := p.Memory.Live[tensor.Offloaded] - files
		p.Host[tensor.Params] = n
		for _, by := range []*[tensor.NumCategories]int64{&p.Memory.Live, &p.Memory.Peak, &p.Memory.AtPeak} {
			by[tensor.Offloaded] -= n
		}
	}
	if o.Optimizer.Device == parallel.OffloadCPU {
		if p.Memory.Live[tensor.Master] == 0 && p.Host[tensor.Params] == 0 {
			p.Host[tensor.Master] = p.updated * int64(tensor.F32.Size())
		}
		for _, c := range []tensor.Category{tensor.Optimizer, tensor.Master, tensor.Grads} {
			n := p.Memory.Live[c]
			p.Host[c] += n
			p.Memory.Live[c] -= n
			p.Memory.AtPeak[c] -= n
			p.Memory.Peak[c] -= n
			p.Memory.LiveTotal -= n
			p.Memory.PeakTotal -= n
		}
	}
	return p, nil
}

// HostBytes is what this rank keeps in the memory of its host, where that is another one than the
// device's.
func (p Plan) HostBytes() (n int64) {
	for _, b := range p.Host {
		n += b
	}
	return n
}
