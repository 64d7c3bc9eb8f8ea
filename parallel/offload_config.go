package parallel

import (
	"fmt"

	"trireme/fault"
)

// Offload is the node `offload`: training state that rests in files of this rank and is read while
// it is needed. It changes memory and time, never the results.
type Offload struct {
	// Optimizer offloads moments, and float32 masters under mixed precision.
	Optimizer OffloadOptimizer `yaml:"optimizer"`
	// Params offloads parameters, if the strategy shards them. In float32 these are the masters
	// too.
	Params OffloadParams `yaml:"params"`
}

// OffloadOptimizer is the node `offload.optimizer`: where optimizer state rests. Numbers of elements
// are per rank.
type OffloadOptimizer struct {
	// Device is where optimizer state rests. One of none | cpu | nvme. nvme is a file; cpu changes
	// nothing here, because host and device are one memory. Default none.
	Device OffloadDevice `yaml:"device"`
	// Path is the directory of the file, which is unlinked and leaves nothing behind; empty is
	// output_dir. Default "".
	Path string `yaml:"path"`
	// SubGroupSize is the number of elements updated at once, in multiples of 2048; a sub-group
	// never spans two units. While one is updated the next is read and the one before is written,
	// so memory holds three. 0: whole units. Default 4194304.
	SubGroupSize int `yaml:"sub_group_size"`
}

// OffloadParams is the node `offload.params`: where sharded parameters rest.
type OffloadParams struct {
	// Device is where parameters rest. One of none | cpu | nvme. As for optimizer. Default none.
	Device OffloadDevice `yaml:"device"`
	// Path is the directory of the file; empty is output_dir. Default "".
	Path string `yaml:"path"`
}

// OffloadDevice is where something rests.
type OffloadDevice string

// The devices.
const (
	OffloadNone OffloadDevice = "none"
	OffloadCPU  OffloadDevice = "cpu"
	OffloadNVMe OffloadDevice = "nvme"
)

// Choices are the names.
func (OffloadDevice) Choices() []string {
	return []string{string(OffloadNone), string(OffloadCPU), string(OffloadNVMe)}
}

// DefaultOffload keeps everything in memory.
func DefaultOffload() Offload {
	return Offload{
		Optimizer: OffloadOptimizer{Device: OffloadNone, SubGroupSize: 1 << 22},
		Params:    OffloadParams{Device: OffloadNone},
	}
}

// Validate checks ranges.
func (c Offload) Validate() error {
	if n := c.Optimizer.SubGroupSize; n < 0 {
		return fault.At("optimizer.sub_group_size", "is %d: it must not be negative", n)
	}
	return nil
}

// Former lists keys that earlier versions had.
func (OffloadOptimizer) Former() []string {
	return []string{"buffer_count", "pipeline_read", "pipeline_write", "ratio"}
}

// Former lists keys that earlier versions had.
func (OffloadParams) Former() []string { return []string{"max_in_cpu"} }

// CheckStrategy refuses what a strategy cannot do.
func (c Offload) CheckStrategy(s Strategy) error {
	if c.Params.Device == OffloadNVMe && !s.Params {
		return fault.Try(fmt.Errorf("parallel: offload.params.device is %s, and strategy %s keeps parameters whole in memory", c.Params.Device, s.Name), "%s, or offload.params.device=none (offload.optimizer works with any)", fault.Set("parallel.strategy", "full_shard"))
	}
	return nil
}

// Notes say what a configuration asks for that changes nothing.
func (c Offload) Notes() (notes []string) {
	for _, at := range []struct {
		key string
		OffloadDevice
	}{{"optimizer", c.Optimizer.Device}, {"params", c.Params.Device}} {
		if at.OffloadDevice == OffloadCPU {
			notes = append(notes, fmt.Sprintf("offload.%s.device is cpu: host and device are one memory here, so nothing moves and no memory is saved. nvme takes it out of memory", at.key))
		}
	}
	return notes
}

// WithDir is c with a directory for what has none.
func (c Offload) WithDir(dir string) Offload {
	if c.Optimizer.Path == "" {
		c.Optimizer.Path = dir
	}
	if c.Params.Path == "" {
		c.Params.Path = dir
	}
	return c
}
