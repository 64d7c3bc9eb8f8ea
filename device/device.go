// Package device opens backends by name. Only this package imports them; all others use
// tensor.Backend.
package device

import (
	"fmt"

	"trireme/collective"
	"trireme/fault"
	"trireme/internal/backend/cpu"
	"trireme/internal/backend/meta"
	"trireme/internal/backend/xla"
	"trireme/tensor"
)

// Options configure a device. The zero value is one thread and private memory.
type Options struct {
	// Threads per rank; 0 is 1. Results do not depend on it.
	Threads int
	// Float32Matmul is how products of float32 matrices are computed; "" is Highest.
	Float32Matmul Float32Matmul
	// Shared is memory that other ranks of this host map; nil for none.
	Shared *tensor.Arena
	// Reserve is the private address space in bytes; 0 is the backend's default.
	Reserve int
	// For is the device that meta stands for; "" is cpu.
	For Name
	// Plan is the planned usage from package planner; nil if unknown.
	Plan *tensor.Usage
}

// Device is a backend with Close, which stops its threads and frees its memory and all tensors.
type Device interface {
	tensor.Backend
	Close() error
}

var (
	_ Device = (*cpu.Backend)(nil)
	_ Device = (*meta.Backend)(nil)
)

// Open opens a device: cpu computes, meta only counts memory. Config.Open opens those of plug-ins.
func Open(name string, o Options) (Device, error) {
	switch name {
	case "cpu":
		b, err := cpu.New(cpu.Options{Threads: o.Threads, Float32Parts: o.Float32Matmul.parts(), Shared: o.Shared, Reserve: o.Reserve, Plan: o.Plan})
		if err != nil {
			return nil, err // an interface of a nil *Backend would not be nil
		}
		return b, nil
	case "meta":
		b := meta.New()
		b.Block = xla.BlockBytes(string(o.For))
		return b, nil
	}
	return nil, fault.Try(fmt.Errorf("device: unknown device %q (known: cpu, meta)", name), "%s", fault.Set("device.name", "cpu"))
}

// World wraps w for tensors of b.
func World(b Device, w collective.World) collective.World {
	if d, ok := b.(interface {
		World(collective.World) collective.World
	}); ok {
		return d.World(w)
	}
	return w
}
