package planner

import (
	"context"

	"trireme/parallel"
	"trireme/tensor"
)

// onDevice returns the job as a device with separate memory runs it: parameters offloaded to the host are
// loaded unit by unit, as those in files are. Parameters that the strategy keeps unsharded stay on the
// device.
func (j Job) onDevice() Job {
	if p := &j.Config.Offload.Params; p.Device == parallel.OffloadCPU {
		p.Device = parallel.OffloadNone
		if s, err := parallel.ParseStrategy(j.Config.Parallel.Strategy); err == nil && s.Params {
			p.Device = parallel.OffloadNVMe
		}
	}
	return j
}

// splitHost moves host memory from p.Memory to p.Host.
//
// The optimizer runs where its state is, as in DeepSpeed and FSDP: an offloaded one has its state, the
// float32 master weights and the gradients on the host. In float32, parameters that stay on the device
// also have master weights on the host.
func (j Job) splitHost(ctx context.Context, rank, accumulation int, p Plan) (Plan, error) {
	o := j.Config.Offload
	if own := j.onDevice().Config.Offload; own.Params.Device == parallel.OffloadNVMe && o.Params.Device == parallel.OffloadCPU {
		files := int64(0)
		if o.Optimizer.Device == parallel.OffloadNVMe { // both count as Offloaded
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
	p.toHost(tensor.Snapshot)
	p.toHost(tensor.Checkpoints)
	if o.Optimizer.Device == parallel.OffloadCPU {
		if p.Memory.Live[tensor.Master] == 0 && p.Host[tensor.Params] == 0 {
			p.Host[tensor.Master] = p.updated * int64(tensor.F32.Size())
		}
		for _, c := range []tensor.Category{tensor.Optimizer, tensor.Master, tensor.Grads} {
			p.toHost(c)
		}
	}
	return p, nil
}

// toHost moves memory of a category that is held all the time to the host.
func (p *Plan) toHost(c tensor.Category) {
	n := p.Memory.Live[c]
	p.Host[c] += n
	p.Memory.Live[c] -= n
	p.Memory.AtPeak[c] -= n
	p.Memory.Peak[c] -= n
	p.Memory.LiveTotal -= n
	p.Memory.PeakTotal -= n
}

// HostBytes returns the host memory of this rank, if the device has its own.
func (p Plan) HostBytes() (n int64) {
	for _, b := range p.Host {
		n += b
	}
	return n
}
