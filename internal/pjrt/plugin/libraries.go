package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"trireme/fault"
)

// Library is a shared library of NVIDIA.
type Library struct {
	Name     string // cublas
	File     string
	Version  string // of the package or file name; empty if neither has one
	Required bool   // else a run may work without it
}

// Need is a library that a plug-in loads.
type Need struct {
	Name     string
	Use      string // what needs it, for messages
	Required bool   // else some runs need it
	Pip, Apt string // packages that have it
}

// need describes a library of CUDA 12 and 13: the version in its file name (libcublas.so.13) and the
// packages that have it. A part of another library's package has none.
type need struct {
	name, use                         string
	required                          bool
	file12, file13, pip12, pip13, apt string
}

const (
	aptLibraries = "cuda-libraries-%s"
	aptCuDNN     = "libcudnn9-cuda-%s"
)

// needs lists libraries after those that they depend on.
var needs = []need{
	{"cudart", "everything", true, "12", "13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime", aptLibraries},
	{"nvJitLink", "sparse matrices, linking", true, "12", "13", "nvidia-nvjitlink-cu12", "nvidia-nvjitlink", aptLibraries},
	{"nvrtc-builtins", "", false, "12.*", "13.*", "", "", ""},
	{"nvrtc", "kernels of cuDNN", true, "12", "13", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc", aptLibraries},
	{"cublasLt", "matrix products", true, "12", "13", "nvidia-cublas-cu12", "nvidia-cublas", aptLibraries},
	{"cublas", "matrix products", true, "12", "13", "nvidia-cublas-cu12", "nvidia-cublas", aptLibraries},
	{"cufft", "Fourier transforms", false, "11", "12", "nvidia-cufft-cu12", "nvidia-cufft", aptLibraries},
	{"cusparse", "sparse matrices", false, "12", "12", "nvidia-cusparse-cu12", "nvidia-cusparse", aptLibraries},
	{"cusolver", "factorizations", false, "11", "12", "nvidia-cusolver-cu12", "nvidia-cusolver", aptLibraries},
	{"cupti", "profiles", false, "12", "13", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti", "cuda-cupti-%s"},
	{"cudnn_graph", "", false, "9", "9", "", "", ""},
	{"cudnn_ops", "", false, "9", "9", "", "", ""},
	{"cudnn_cnn", "", false, "9", "9", "", "", ""},
	{"cudnn_adv", "", false, "9", "9", "", "", ""},
	{"cudnn_engines_precompiled", "", false, "9", "9", "", "", ""},
	{"cudnn_engines_runtime_compiled", "", false, "9", "9", "", "", ""},
	{"cudnn_heuristic", "", false, "9", "9", "", "", ""},
	{"cudnn", "attention", true, "9", "9", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", aptCuDNN},
	{"nccl", "several GPUs", false, "2", "2", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "libnccl2"},
	{"nvshmem_host", "some collectives of several machines", false, "3", "3", "nvidia-nvshmem-cu12", "nvidia-nvshmem-cu13", "libnvshmem3-cuda-%s"},
}

// part reports whether the library is a part of another one's package.
func (n need) part() bool { return n.apt == "" }

// forCUDA returns the pattern of the file's name and the need for a major version of CUDA.
func (n need) forCUDA(v int) (pattern string, out Need) {
	file, pip, apt := n.file13, n.pip13, "13-0"
	if v == 12 {
		file, pip, apt = n.file12, n.pip12, "12-8"
	}
	if n.apt == aptCuDNN || n.name == "nvshmem_host" {
		apt = fmt.Sprint(v)
	}
	if !strings.Contains(n.apt, "%") {
		apt = n.apt
	} else {
		apt = fmt.Sprintf(n.apt, apt)
	}
	return "lib" + n.name + ".so." + file, Need{n.name, n.use, n.required, pip, apt}
}

// major is the major version of CUDA that a plug-in needs, 13 if it is unknown.
func (f *Found) major() int {
	if f.CUDA == 12 {
		return 12
	}
	return 13
}

// findLibraries sets Libraries, Missing, Data and Notes.
func (f *Found) findLibraries() {
	dirs := f.libraryDirs()
	v := f.major()
	for _, n := range needs {
		pattern, need := n.forCUDA(v)
		at := slices.IndexFunc(dirs, func(d string) bool { return len(glob(d, pattern)) > 0 })
		if at >= 0 {
			file := glob(dirs[at], pattern)[0]
			f.Libraries = append(f.Libraries, Library{n.name, file, libraryVersion(file, need.Pip), n.required})
		} else if !n.part() {
			f.Missing = append(f.Missing, need)
		}
	}
	f.findData()
	f.Notes = append(f.Notes, f.conflicts()...)
}

// libraryDirs lists directories of libraries. Those beside the plug-in come first, because pip installs
// versions there that fit it, and LD_LIBRARY_PATH after Python's, because it often names a CUDA of
// another program.
func (f *Found) libraryDirs() (dirs []string) {
	s := f.system
	sites := s.sites()
	if f.Site != "" {
		sites = append([]string{f.Site}, sites...)
	}
	for _, site := range sites {
		dirs = append(dirs, glob(site, fmt.Sprintf("nvidia/cu%d/lib", f.major()))...)
		dirs = append(dirs, glob(site, "nvidia/*/lib")...)
	}
	dirs = append(dirs, s.list("LD_LIBRARY_PATH")...)
	for _, toolkit := range f.toolkits() {
		dirs = append(dirs, filepath.Join(toolkit, "lib64"), filepath.Join(toolkit, "lib"), filepath.Join(toolkit, "extras", "CUPTI", "lib64"))
	}
	if prefix := s.env("CONDA_PREFIX"); prefix != "" {
		dirs = append(dirs, filepath.Join(prefix, "lib"))
	}
	return unique(append(dirs, s.loaderDirs()...))
}

// toolkits lists the directories of CUDA toolkits.
func (f *Found) toolkits() (dirs []string) {
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"} {
		if d := f.system.env(v); d != "" {
			dirs = append(dirs, d)
		}
	}
	root := filepath.Join(f.system.Root, "usr/local")
	return unique(append(append(dirs, glob(root, fmt.Sprintf("cuda-%d*", f.major()))...), filepath.Join(root, "cuda")))
}

// findData looks for ptxas and libdevice in one directory: of pip's packages or of a toolkit.
func (f *Found) findData() {
	var dirs []string
	sites := f.system.sites()
	if f.Site != "" {
		sites = append([]string{f.Site}, sites...)
	}
	for _, site := range sites {
		dirs = append(dirs, filepath.Join(site, fmt.Sprintf("nvidia/cu%d", f.major())), filepath.Join(site, "nvidia/cuda_nvcc"))
	}
	for _, d := range append(dirs, f.toolkits()...) {
		if isFile(filepath.Join(d, "bin/ptxas")) && len(glob(d, "nvvm/libdevice/libdevice*.bc")) > 0 {
			f.Data = d
			return
		}
	}
	n := Need{Name: "ptxas and libdevice", Use: "the compiler", Required: true, Pip: "nvidia-cuda-nvcc nvidia-nvvm", Apt: "cuda-nvcc-13-0"}
	if f.major() == 12 {
		n.Pip, n.Apt = "nvidia-cuda-nvcc-cu12", "cuda-nvcc-12-8"
	}
	f.Missing = append(f.Missing, n)
}

// libraryVersion returns the version of a library: of its file name (libcublas.so.13.1.0.3), else of the
// Python package that it belongs to (nvidia_cublas-13.1.0.3.dist-info), else what the name has.
func libraryVersion(file, pip string) string {
	_, version, _ := strings.Cut(filepath.Base(file), ".so.")
	if target, err := filepath.EvalSymlinks(file); err == nil {
		if _, v, ok := strings.Cut(filepath.Base(target), ".so."); ok && strings.Contains(v, ".") {
			return v
		}
	}
	if before, _, ok := strings.Cut(file, "/nvidia/"); ok && pip != "" {
		for _, info := range glob(before, strings.ReplaceAll(pip, "-", "_")+"-*.dist-info") {
			_, v, _ := strings.Cut(strings.TrimSuffix(filepath.Base(info), ".dist-info"), "-")
			return v
		}
	}
	return version
}

// conflicts describes libraries in LD_LIBRARY_PATH that differ from the chosen ones. A plug-in loads the
// chosen ones, but other libraries of that directory can still be loaded beside them.
func (f *Found) conflicts() (notes []string) {
	for _, d := range f.system.list("LD_LIBRARY_PATH") {
		var names []string
		for _, n := range needs {
			others := glob(d, "lib"+n.name+".so.*")
			if len(others) == 0 || n.part() {
				continue
			}
			if !slices.ContainsFunc(f.Libraries, func(l Library) bool {
				return l.Name == n.name && slices.ContainsFunc(others, func(o string) bool { return sameFile(o, l.File) })
			}) {
				names = append(names, filepath.Base(others[0]))
			}
		}
		if len(names) > 0 {
			notes = append(notes, fmt.Sprintf("LD_LIBRARY_PATH has %s with other CUDA libraries (%s), which can crash the plug-in. try: unset LD_LIBRARY_PATH", d, strings.Join(names, ", ")))
		}
	}
	return notes
}

// CheckLibraries returns an error that names the required libraries that are missing.
func (f Found) CheckLibraries() error {
	var names, packages []string
	for _, n := range f.Missing {
		if n.Required {
			names, packages = append(names, n.Name), append(packages, n.Pip)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fault.Try(fmt.Errorf("plug-in %s needs libraries of NVIDIA that were not found: %s", f.Path, strings.Join(names, ", ")),
		"pip install %s, or trireme doctor devices", strings.Join(unique(packages), " "))
}
