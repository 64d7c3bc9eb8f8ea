package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"trireme/collective"
	"trireme/fault"
	"trireme/internal/backend/meta"
	"trireme/internal/backend/xla"
	"trireme/internal/backend/xla/cudnn"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/hlo"
	"trireme/internal/pjrt/plugin"
)

// Target is a kind of accelerator to compile for, which the machine may lack.
type Target struct {
	Name   string // of the accelerator
	Memory int64  // bytes

	gpu      cudnn.Device
	ranks    int
	topology *pjrt.Topology
	flags    []pjrt.Flag
}

// CompilerOptions select a compiler and its target.
type CompilerOptions struct {
	Target string // h100, h200, or the file of a target configuration of openxla/xla
	Ranks  int    // that run a program together, one per accelerator
	Plugin string // the file of the CUDA plug-in; empty looks where pip installs it
	// CUDADir has bin/ptxas and nvvm/libdevice; empty looks where pip and toolkits install them.
	CUDADir string
}

// devicesPerHost is the number of accelerators that share a fast network.
const devicesPerHost = 8

// OpenTarget finds and loads a compiler for a target. The compiler stays loaded for the life of the
// process.
func OpenTarget(o CompilerOptions) (*Target, error) {
	t, err := xla.FindTarget(o.Target)
	if err != nil {
		return nil, err
	}
	shape := fmt.Sprintf("1x1x%d", o.Ranks)
	if o.Ranks > devicesPerHost {
		if rest := o.Ranks % devicesPerHost; rest != 0 {
			return nil, fault.Try(fmt.Errorf("device: %d ranks do not fill machines of %d accelerators", o.Ranks, devicesPerHost), "%d ranks", o.Ranks-rest)
		}
		shape = fmt.Sprintf("1x%dx%d", o.Ranks/devicesPerHost, devicesPerHost)
	}
	found, err := plugin.Find(plugin.Machine(), plugin.CUDA, o.Plugin, 0)
	switch {
	case err != nil && o.Plugin != "":
		return nil, err
	case err != nil: // less than a run needs
		return nil, fault.Try(errors.New("device: no CUDA plug-in was found (trireme doctor devices lists where it can be)"),
			"%s, or %s", installCompiler, fault.Set("device.plugin", "FILE.so"))
	}
	dir := o.CUDADir
	if dir == "" {
		dir = found.Data
	}
	if err := checkCUDADir(dir); err != nil {
		return nil, err
	}
	p, err := pjrt.Load(found.Path)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	attributes, err := p.Attributes()
	if err != nil {
		return nil, fmt.Errorf("device: plug-in %s: %w", found.Path, err)
	}
	if attributes["cuda_version"] == nil {
		return nil, fault.Try(fault.At("device.plugin", "%s is not XLA's CUDA plug-in, which compiles for %s", found.Path, o.Target), installCompiler)
	}
	topology, err := p.NewTopology([]pjrt.Option{{Name: "target_config", Value: t.Config}, {Name: "topology", Value: shape}})
	if err != nil {
		return nil, fmt.Errorf("device: target %s, plug-in %s: %w", o.Target, found.Path, err)
	}
	return &Target{Name: t.Name, Memory: t.Memory, gpu: t.GPU, ranks: o.Ranks, topology: topology, flags: []pjrt.Flag{{Name: "xla_gpu_cuda_data_dir", Value: dir}}}, nil
}

// installCompiler installs what OpenTarget needs.
const installCompiler = "pip install jax-cuda13-pjrt nvidia-cuda-nvcc nvidia-nvvm"

// checkCUDADir checks that dir has the files that the compiler needs.
func checkCUDADir(dir string) error {
	if dir == "" {
		return fault.Try(errors.New("device: the compiler's ptxas and libdevice were not found"), "%s, or the directory of a CUDA toolkit", installCompiler)
	}
	for _, name := range []string{"bin/ptxas", "nvvm/libdevice/libdevice.10.bc"} {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return fault.Try(fmt.Errorf("device: %s has no %s, which the compiler needs", dir, name), "%s, or the directory of a CUDA toolkit", installCompiler)
		}
	}
	return nil
}

// Compiler is a device without storage that compiles the programs of steps for a target and runs none.
type Compiler interface {
	Device
	// World wraps w, a world of Target's ranks that moves no data.
	World(w collective.World) collective.World
	// Programs describes the programs compiled so far, in order.
	Programs() []Program
}

// Collective is a collective in the schedule of a compiled program.
type Collective = hlo.Collective

// Program is a compiled program.
type Program struct {
	Call       int // index of the first program of the step that is equal to it
	Operations int // as the model and the engine call them
	// Peak is the peak of a rank's memory in bytes while the program runs, with the state that only
	// other programs use. Arguments, Outputs and Temporaries are the program's; Alias is the part of
	// Outputs that replaces arguments.
	Peak, Arguments, Outputs, Alias, Temporaries int64
	Seconds                                      float64 // of compilation
	// Collectives are those that the compiler has scheduled.
	Collectives []Collective
}

// Hidden is the share of the bytes of collectives that move while matrix products run.
func (p Program) Hidden() float64 { return hlo.Hidden(p.Collectives) }

// Compiler returns a new device. started is called before each compilation with the index of the program
// in the step and the number of its operations; nil ignores it.
func (t *Target) Compiler(started func(call, operations int)) Compiler {
	return &compiler{xla.NewCompiler(meta.New(), xla.CompilerOptions{
		Topology: t.topology, Platform: "cuda", Replicas: t.ranks, GPU: &t.gpu, Flags: t.flags, Started: started,
	})}
}

type compiler struct{ *xla.Compiler }

// Programs converts those of package xla.
func (c *compiler) Programs() (out []Program) {
	for _, p := range c.Compiler.Programs() {
		m := p.Memory
		out = append(out, Program{
			Call: p.Call, Operations: p.Operations, Seconds: p.Seconds,
			Peak: c.Peak(p), Arguments: m.Arguments, Outputs: m.Outputs, Alias: m.Alias, Temporaries: m.Temp,
			Collectives: p.Collectives,
		})
	}
	return out
}

// Targets returns the names of known targets.
func Targets() []string { return xla.TargetNames() }
