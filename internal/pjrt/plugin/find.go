package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"trireme/fault"
)

// Kind is the hardware that a plug-in is for.
type Kind string

// Kinds of plug-ins. Other is one that this package does not know.
const (
	CUDA  Kind = "cuda"
	TPU   Kind = "tpu"
	CPU   Kind = "cpu"
	Other Kind = "other"
)

// File is a plug-in on this machine.
type File struct {
	Kind Kind
	Path string
	Site string // the directory of Python packages that it is in; empty outside of one
	CUDA int    // the major version of CUDA that its path names; 0 if it names none
	From string // where it was found, for messages
}

// packages are the plug-ins of Python packages, the preferred first.
var packages = []struct {
	kind Kind
	cuda int
	path string
}{
	{CUDA, 13, "jax_plugins/xla_cuda13/xla_cuda_plugin.so"},
	{CUDA, 12, "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
	{TPU, 0, "libtpu/libtpu.so"},
	{CPU, 0, "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
}

// KindOf returns the kind of a plug-in by the name of its file: xla_cuda_plugin.so, libtpu.so.
func KindOf(path string) Kind {
	name := strings.ToLower(filepath.Base(path))
	for _, k := range []Kind{CUDA, TPU, CPU} {
		if strings.Contains(name, string(k)) {
			return k
		}
	}
	return Other
}

// List finds all plug-ins, the preferred first, and names the directories it searched:
// PJRT_NAMES_AND_LIBRARY_PATHS and TPU_LIBRARY_PATH, as JAX reads them, directories of Python packages,
// trireme/plugins in the user's cache, and lib/trireme.
func List(s System) (files []File, looked []string) {
	add := func(f File) {
		if isFile(f.Path) && !slices.ContainsFunc(files, func(o File) bool { return sameFile(o.Path, f.Path) }) {
			files = append(files, f)
		}
	}
	for _, entry := range strings.Split(s.env("PJRT_NAMES_AND_LIBRARY_PATHS"), ",") {
		name, path, ok := strings.Cut(entry, ":")
		if !ok {
			continue
		}
		kind := KindOf(name)
		if kind == Other {
			kind = KindOf(path)
		}
		looked = append(looked, path)
		add(File{Kind: kind, Path: path, From: "PJRT_NAMES_AND_LIBRARY_PATHS"})
	}
	if path := s.env("TPU_LIBRARY_PATH"); path != "" {
		looked = append(looked, path)
		add(File{Kind: TPU, Path: path, From: "TPU_LIBRARY_PATH"})
	}
	sites := s.sites()
	looked = append(looked, sites...)
	for _, p := range packages {
		for _, site := range sites {
			add(File{Kind: p.kind, Path: filepath.Join(site, p.path), Site: site, CUDA: p.cuda, From: "Python"})
		}
	}
	dirs := s.under("usr/local/lib/trireme", "usr/lib/trireme")
	if s.Cache != "" {
		dirs = append([]string{filepath.Join(s.Cache, "trireme", "plugins")}, dirs...)
	}
	looked = append(looked, dirs...)
	for _, d := range dirs {
		for _, path := range glob(d, "*.so") {
			add(File{Kind: KindOf(path), Path: path, From: d})
		}
	}
	return files, looked
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// Found is a plug-in with what it needs.
type Found struct {
	File
	// Libraries are NVIDIA's, in the order of their dependencies; for CUDA only.
	Libraries []Library
	// Missing are the libraries that were not found.
	Missing []Need
	// Data is the directory with bin/ptxas and nvvm/libdevice, which the compiler needs; empty if
	// there is none. For CUDA only.
	Data string
	// Notes are facts that can break the plug-in, for messages.
	Notes []string

	system System
}

// Find returns the plug-in in file, or if file is empty the preferred one of the kind. newest is the
// newest major version of CUDA that the driver runs, 0 if unknown: a plug-in for a newer one is not
// preferred.
func Find(s System, kind Kind, file string, newest int) (Found, error) {
	f, err := choose(s, kind, file, newest)
	if err != nil {
		return Found{}, err
	}
	found := Found{File: f, system: s}
	if f.Kind == CUDA {
		found.findLibraries()
	}
	return found, nil
}

func choose(s System, kind Kind, file string, newest int) (File, error) {
	if file != "" {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			return File{}, fault.Try(fault.At("device.plugin", "%s: no such file", file), "trireme doctor devices, which lists the plug-ins of this machine")
		case !info.Mode().IsRegular():
			return File{}, fault.Try(fault.At("device.plugin", "%s: not a file", file), "the plug-in's shared library, %s", packages[0].path)
		}
		f := File{Kind: kind, Path: file, From: "device.plugin"}
		if kind == Other {
			f.Kind = KindOf(file)
		}
		for _, p := range packages {
			if absolute, err := filepath.Abs(file); err == nil && strings.HasSuffix(absolute, "/"+p.path) {
				f.Site, f.CUDA = strings.TrimSuffix(absolute, "/"+p.path), p.cuda
			}
		}
		return f, nil
	}
	files, looked := List(s)
	best := -1
	for i, f := range files {
		if f.Kind != kind {
			continue
		}
		if best < 0 {
			best = i
		}
		if newest == 0 || f.CUDA <= newest {
			best = i
			break
		}
	}
	if best < 0 {
		return File{}, fault.Try(fault.At("device.name", "is %s: no plug-in for it was found in %d directories (trireme doctor devices lists them)", kind, len(looked)),
			"%s, or %s", Install(kind, newest), fault.Set("device.plugin", "FILE.so"))
	}
	return files[best], nil
}

// Install returns the command that installs the plug-in of a kind with all that it loads. newest is as in
// Find.
func Install(kind Kind, newest int) string {
	switch {
	case kind == TPU:
		return "pip install libtpu"
	case kind == CPU:
		return "pip install xla-cpu-pjrt"
	case newest == 12:
		return `pip install "jax-cuda12-plugin[with-cuda]"`
	}
	return `pip install "jax-cuda13-plugin[with-cuda]"`
}
