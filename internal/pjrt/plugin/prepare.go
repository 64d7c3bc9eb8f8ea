package plugin

import (
	"fmt"
	"os"
	"strings"

	"trireme/internal/dl"
)

// GPUs are facts of the machine's GPUs that Prepare depends on.
type GPUs struct {
	Hopper bool // compute capability 9
}

// Setting is an environment variable.
type Setting struct{ Name, Value string }

// Settings are the environment variables that the plug-in needs, besides that of pjrt.Load. Those that the
// user has set stay.
func (f Found) Settings(gpus GPUs) (out []Setting) {
	set := func(name, value string) {
		if f.system.env(name) == "" {
			out = append(out, Setting{name, value})
		}
	}
	if f.Kind != CUDA {
		return out
	}
	set("CUDA_DEVICE_ORDER", "PCI_BUS_ID") // the order of nvidia-smi
	if gpus.Hopper {
		// One queue of work per GPU starts a collective before later kernels. Newer GPUs keep the
		// order with several.
		set("CUDA_DEVICE_MAX_CONNECTIONS", "1")
	}
	const dataFlag = "--xla_gpu_cuda_data_dir="
	if flags := f.system.env("XLA_FLAGS"); f.Data != "" && !strings.Contains(flags, dataFlag) {
		out = append(out, Setting{"XLA_FLAGS", strings.TrimSpace(flags + " " + dataFlag + f.Data)})
	}
	return out
}

// Prepare prepares this process for pjrt.Load of the file: it sets the environment variables and loads
// NVIDIA's libraries. Call it before other goroutines read the environment.
//
// A CUDA plug-in opens its libraries by their versioned names (libcublas.so.13), and they open each other
// so. The loader answers such a name with a loaded library of that SONAME, so loading the chosen files by
// their paths, dependencies first, decides which ones are used, whatever LD_LIBRARY_PATH names. A
// directory of links would only be searched if it were in LD_LIBRARY_PATH when the process started.
func (f Found) Prepare(gpus GPUs) error {
	for _, s := range f.Settings(gpus) {
		if err := os.Setenv(s.Name, s.Value); err != nil { // C sees it too
			return fmt.Errorf("plug-in %s: %w", f.Path, err)
		}
	}
	for _, l := range f.Libraries {
		if _, err := dl.Open(l.File, false); err != nil && l.Required {
			return fmt.Errorf("plug-in %s: NVIDIA's library %s cannot be loaded: %s", f.Path, l.Name, strings.TrimPrefix(err.Error(), l.File+": "))
		}
	}
	return nil
}
