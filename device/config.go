package device

import (
	"runtime"

	"trireme/fault"
	"trireme/internal/conf"
	"trireme/internal/numa"
	"trireme/tensor"
)

// Name is the name of a device.
type Name string

// Devices to train on.
const (
	CPU  Name = "cpu"  // the processor
	CUDA Name = "cuda" // NVIDIA GPUs
	XLA  Name = "xla"  // the devices of the plug-in device.plugin
	TPU  Name = "tpu"  // Google TPUs
)

// Choices lists all devices.
func (Name) Choices() []string { return []string{string(CPU), string(CUDA), string(XLA), string(TPU)} }

// Meant is cuda for gpu, which is nearer to cpu.
func (Name) Meant(word string) string {
	if word == "gpu" {
		return string(CUDA)
	}
	return ""
}

// Accelerator reports whether the device is reached through a plug-in, so that one process can drive
// several.
func (n Name) Accelerator() bool { return n != CPU }

// NUMA says whether the processes of ranks are bound to NUMA nodes.
type NUMA = numa.Policy

// Bytes is an amount of memory, in a configuration a number with its unit.
type Bytes = conf.Bytes

// Config is the node `device`: the device, its memory and its plug-in.
type Config struct {
	// Name is the device. cuda is NVIDIA GPUs, tpu Google TPUs, xla the devices of the plug-in
	// device.plugin. trireme doctor devices lists what this machine has. Default cpu.
	Name Name `yaml:"name"`
	// Plugin is the file of the PJRT plug-in, a shared library. Empty looks for the plug-in of cuda
	// or tpu where pip installs it; xla has no default. Not used by cpu. Default "".
	Plugin string `yaml:"plugin"`
	// ProcessRanks is the number of ranks that one process runs. --nproc must be a multiple of it, or
	// smaller. 0 is all ranks of this machine for devices of a plug-in, and 1 for cpu. A process that
	// another launcher starts, such as torchrun, is one rank, or this many if this is set. Results on cpu
	// do not depend on it. Default 0.
	ProcessRanks int `yaml:"ranks_per_process"`
	// MemoryFraction is the fraction of a GPU's memory that a run may allocate; the rest is left to
	// CUDA, NCCL and other programs. Used by cuda. Default 0.9.
	MemoryFraction float64 `yaml:"memory_fraction"`
	// Preallocate allocates that fraction at the start. false grows with the need, which lets programs
	// share a GPU, but fragments its memory. Used by cuda. Default true.
	Preallocate bool `yaml:"preallocate"`
	// Deterministic allows only operations that give the same bits in every run with the same GPUs,
	// ranks and software, also after a resume. false allows faster ones, such as cuDNN's default
	// backward of attention. Used by cuda; cpu always gives the same bits. Default true.
	Deterministic bool `yaml:"deterministic"`
	// Threads is the number of threads per rank; 0 divides the machine's processors among its
	// ranks. Results do not depend on it. Default 0.
	Threads int `yaml:"threads"`
	// NUMA binds the processes that the launcher starts to the processors of NUMA nodes, on Linux, so that
	// their memory is on the node of their threads. Processes are spread evenly over nodes, and those of a node
	// divide its cores. auto binds several processes with equal shares of several nodes, if the launcher may use
	// all their processors at a time. node binds with unequal shares too, and is an error if the nodes are unknown.
	// none leaves threads to the system, as do other launchers, whose binding is kept. One of auto | node | none.
	// Used by cpu. Default auto.
	NUMA NUMA `yaml:"numa"`
	// Instructions is the instruction set of operations on cpu. Results depend on its rounding, and are
	// equal on all processors that have it. auto is the fastest that the processor has, as trireme version
	// prints. Default auto.
	Instructions Instructions `yaml:"instructions"`
	// Float32Matmul is how products of float32 matrices are computed on a processor with matrix tiles
	// (AMX); others always compute highest. highest uses float32 fused multiply-adds and has the same bits
	// on all processors. bfloat16x6 splits each number into three bfloat16 parts and sums six products of
	// parts: it is faster, and its errors are half of those of highest. high sums three products of two
	// parts, which have 16 bits together, as PyTorch's set_float32_matmul_precision("high") allows. auto is
	// bfloat16x6. Used by cpu. Default auto.
	Float32Matmul Float32Matmul `yaml:"float32_matmul"`
	// MemoryLimit is the memory for all ranks of this machine, such as 60GiB or 64GB. A run with a
	// larger planned peak is refused before it starts. Empty is the available memory of the machine
	// and the control group. Default "".
	MemoryLimit Bytes `yaml:"memory_limit"`
	// Overcommit starts such a run anyway. Default false.
	Overcommit bool `yaml:"overcommit"`
}

// DefaultConfig is the default configuration.
func DefaultConfig() Config {
	return Config{Name: CPU, MemoryFraction: 0.9, Preallocate: true, Deterministic: true, NUMA: numa.Auto, Instructions: AutoInstructions, Float32Matmul: AutoFloat32Matmul}
}

// Validate checks all fields. It does not look for plug-ins or devices.
func (c Config) Validate() error {
	switch {
	case c.Name == XLA && c.Plugin == "":
		return fault.Try(fault.At("name", "xla needs the file of a plug-in"), "%s", fault.Set("device.plugin", "FILE.so"))
	case c.Name.Accelerator() && (c.Float32Matmul == BFloat16x6 || c.Float32Matmul == High):
		return fault.Try(fault.At("float32_matmul", "is %s, which is used by cpu only: products of float32 on %s are float32", c.Float32Matmul, c.Name), "%s", fault.Set("device.float32_matmul", string(AutoFloat32Matmul)))
	case c.Name.Accelerator() && c.NUMA == numa.OnNode:
		return fault.Try(fault.At("numa", "is %s, which is used by cpu only", c.NUMA), "%s", fault.Set("device.numa", string(numa.Auto)))
	case c.ProcessRanks < 0:
		return fault.At("ranks_per_process", "is %d: it must not be negative", c.ProcessRanks)
	case !(c.MemoryFraction > 0 && c.MemoryFraction <= 1):
		return fault.Try(fault.At("memory_fraction", "is %v: it must be above 0 and not above 1", c.MemoryFraction), "%s", fault.Set("device.memory_fraction", 0.9))
	case c.Threads < 0:
		return fault.At("threads", "is %d: it must not be negative", c.Threads)
	}
	return nil
}

// RanksPerProcess is the number of ranks per process for localRanks ranks on this machine, from 1 to
// localRanks. The caller checks that it divides them.
func (c Config) RanksPerProcess(localRanks int) int {
	n := c.ProcessRanks
	if n == 0 && c.Name.Accelerator() {
		n = localRanks
	}
	return max(1, min(n, localRanks))
}

// ThreadsPerRank is the number of threads per rank for localRanks ranks on this machine.
func (c Config) ThreadsPerRank(localRanks int) int {
	if c.Threads > 0 {
		return c.Threads
	}
	return max(1, runtime.GOMAXPROCS(0)/max(1, localRanks))
}

// Open opens the device of a rank of process p, one of localRanks ranks on this machine. plan is its planned
// usage, nil if unknown.
func (c Config) Open(p Process, shared *tensor.Arena, localRanks int, plan *tensor.Usage) (Device, error) {
	o := Options{Threads: c.ThreadsPerRank(localRanks), Float32Matmul: c.Float32Matmul, Shared: shared, Plan: plan}
	if c.Name.Accelerator() {
		return openAccelerator(c, p, o)
	}
	if err := c.Instructions.Use(); err != nil {
		return nil, err
	}
	return Open(string(c.Name), o)
}
