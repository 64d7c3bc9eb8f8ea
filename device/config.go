package device

import (
	"runtime"

	"trireme/fault"
	"trireme/tensor"
)

// Config is the node `device`: the processor, its threads and its memory.
type Config struct {
	// Name is the device. One of cpu. Default cpu.
	Name string `yaml:"name"`
	// Threads is the number of threads per rank; 0 divides the machine's processors among its
	// ranks. Results do not depend on it. Default 0.
	Threads int `yaml:"threads"`
	// MemoryLimit is the memory for all ranks of this machine, such as 60GiB or 64GB. A run with a
	// larger planned peak is refused before it starts. Empty is the available memory of the machine
	// and the control group. Default "".
	MemoryLimit Bytes `yaml:"memory_limit"`
	// Overcommit starts such a run anyway. Default false.
	Overcommit bool `yaml:"overcommit"`
}

// DefaultConfig is the default configuration.
func DefaultConfig() Config { return Config{Name: "cpu"} }

// Validate checks all fields.
func (c Config) Validate() error {
	switch {
	case c.Name != "cpu":
		return fault.Try(fault.At("name", "%q: Trireme trains on cpu; GPUs are not supported yet", c.Name), "%s", fault.Set("device.name", "cpu"))
	case c.Threads < 0:
		return fault.At("threads", "is %d: it must not be negative", c.Threads)
	}
	return nil
}

// ThreadsPerRank is the number of threads per rank for localRanks ranks on this machine.
func (c Config) ThreadsPerRank(localRanks int) int {
	if c.Threads > 0 {
		return c.Threads
	}
	return max(1, runtime.GOMAXPROCS(0)/max(1, localRanks))
}

// Open opens the device for one of localRanks ranks on this machine. plan is its planned usage, nil
// if unknown.
func (c Config) Open(shared *tensor.Arena, localRanks int, plan *tensor.Usage) (Device, error) {
	return Open(c.Name, Options{Threads: c.ThreadsPerRank(localRanks), Shared: shared, Plan: plan})
}
