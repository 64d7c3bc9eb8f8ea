package parallel

import (
	"fmt"

	"trireme/fault"
	"trireme/tensor"
)

// Offload is the node `offload`: training state that each rank keeps in files and reads when it is
// needed. It changes memory and time, never the results.
type Offload struct {
	// Optimizer offloads moments, and float32 masters under mixed precision.
	Optimizer OffloadOptimizer `yaml:"optimizer"`
	// Params offloads parameters, if the strategy shards them. In float32 they are also the masters.
	Params OffloadParams `yaml:"params"`
}

// OffloadOptimizer is the node `offload.optimizer`: where optimizer state is kept. Element counts are
// per rank.
type OffloadOptimizer struct {
	// Device is where optimizer state is kept. One of none | cpu | nvme. nvme is a file; cpu has no
	// effect, because host and device share memory. Default none.
	Device OffloadDevice `yaml:"device"`
	// Path is the directory of the file, which is unlinked when it is created; empty is output_dir.
	// Default "".
	Path string `yaml:"path"`
	// SubGroupSize is the number of elements updated at once, in multiples of 2048. A sub-group does
	// not span units. Memory holds three: one is updated while the next is read and the previous one
	// is written. 0 is a whole unit. Default 4194304.
	SubGroupSize int `yaml:"sub_group_size"`
}

// OffloadParams is the node `offload.params`: where sharded parameters are kept.
type OffloadParams struct {
	// Device is where parameters are kept, as for the optimizer. One of none | cpu | nvme. Default none.
	Device OffloadDevice `yaml:"device"`
	// Path is the directory of the file; empty is output_dir. Default "".
	Path string `yaml:"path"`
}

// OffloadDevice is where offloaded state is kept.
type OffloadDevice string

// The devices.
const (
	OffloadNone OffloadDevice = "none"
	OffloadCPU  OffloadDevice = "cpu"
	OffloadNVMe OffloadDevice = "nvme"
)

// Choices returns the names.
func (OffloadDevice) Choices() []string {
	return []string{string(OffloadNone), string(OffloadCPU), string(OffloadNVMe)}
}

// DefaultOffload offloads nothing.
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

// Former returns keys of earlier versions.
func (OffloadOptimizer) Former() []string {
	return []string{"buffer_count", "pipeline_read", "pipeline_write", "ratio"}
}

// Former returns keys of earlier versions.
func (OffloadParams) Former() []string { return []string{"max_in_cpu"} }

// CheckStrategy returns an error if strategy s cannot be combined with c.
func (c Offload) CheckStrategy(s Strategy) error {
	if c.Params.Device == OffloadNVMe && !s.Params {
		return fault.Try(fmt.Errorf("parallel: offload.params.device is %s, and strategy %s does not shard parameters", c.Params.Device, s.Name), "%s, or offload.params.device=none (offload.optimizer works with any strategy)", fault.Set("parallel.strategy", "full_shard"))
	}
	return nil
}

// CheckBackend returns an error if c has state in files, and b compiles whole steps.
func (c Offload) CheckBackend(b tensor.Backend) error {
	if tensor.Static(b) && (c.Optimizer.Device == OffloadNVMe || c.Params.Device == OffloadNVMe) {
		return fault.Try(fmt.Errorf("parallel: offload: %s compiles a whole step, and cannot read or write files within it", b.Name()), "%s and %s", fault.Set("offload.optimizer.device", string(OffloadNone)), fault.Set("offload.params.device", string(OffloadNone)))
	}
	return nil
}

// Notes returns a line for each setting that has no effect.
func (c Offload) Notes() (notes []string) {
	for _, at := range []struct {
		key string
		OffloadDevice
	}{{"optimizer", c.Optimizer.Device}, {"params", c.Params.Device}} {
		if at.OffloadDevice == OffloadCPU {
			notes = append(notes, fmt.Sprintf("offload.%s.device=cpu has no effect: host and device share memory. try: nvme", at.key))
		}
	}
	return notes
}

// WithDir returns c with dir for empty paths.
func (c Offload) WithDir(dir string) Offload {
	if c.Optimizer.Path == "" {
		c.Optimizer.Path = dir
	}
	if c.Params.Path == "" {
		c.Params.Path = dir
	}
	return c
}
