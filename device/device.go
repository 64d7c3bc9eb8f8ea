// Package device opens backends by name. It is the only package that imports them, so that
// one list knows them all; everything else sees tensor.Backend.
package device

import (
	"fmt"

	"trireme/fault"
	"trireme/internal/backend/cpu"
	"trireme/internal/backend/meta"
	"trireme/tensor"
)

// Options configure a device. The zero value is one thread and private memory.
type Options struct {
	// Threads compute together in one rank; 0 is 1. Results do not depend on it.
	Threads int
	// Shared is memory that the other ranks of this host can read; nil where there is none.
	Shared *tensor.Arena
	// Reserve is the private address space in bytes; 0 leaves it to the backend.
	Reserve int
	// Plan is what will be used at most, where it is known; see package planner.
	Plan *tensor.Usage
}

// Device is a backend with an end: Close gives its threads and memory back, and no tensor
// of it may be used afterwards.
type Device interface {
	tensor.Backend
	Close() error
}

var (
	_ Device = (*cpu.Backend)(nil)
	_ Device = (*meta.Backend)(nil)
)

// Open opens a device: cpu computes, meta counts memory and computes nothing.
func Open(name string, o Options) (Device, error) {
	switch name {
	case "cpu":
		b, err := cpu.New(cpu.Options{Threads: o.Threads, Shared: o.Shared, Reserve: o.Reserve, Plan: o.Plan})
		if err != nil {
			return nil, err // and no Device that holds nothing
		}
		return b, nil
	case "meta":
		return meta.New(), nil
	}
	return nil, fault.Try(fmt.Errorf("device: there is no device %q; there are cpu and meta", name), "%s", fault.Set("device.name", "cpu"))
}
