package plugin_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"trireme/internal/dl"
	"trireme/internal/nvml/nvmltest"
	"trireme/internal/pjrt/plugin"
)

// machine is a System in a temporary directory: its root, home and cache are there, and so are the paths
// of env, where ROOT stands for the directory.
func machine(t *testing.T, env map[string]string, files ...string) (plugin.System, string) {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		file, target, link := strings.Cut(filepath.Join(root, f), " -> ")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(file, nil, 0o755)
		if link {
			os.Remove(file)
			err = os.Symlink(target, file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return plugin.System{
		Root: root, Home: filepath.Join(root, "home"), Cache: filepath.Join(root, "home/.cache"),
		LookupEnv: func(name string) (string, bool) {
			value, set := env[name]
			return strings.ReplaceAll(value, "ROOT", root), set
		},
	}, root
}

const (
	cuda13 = "jax_plugins/xla_cuda13/xla_cuda_plugin.so"
	cuda12 = "jax_plugins/xla_cuda12/xla_cuda_plugin.so"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    map[string]string
		files  []string
		kind   plugin.Kind
		file   string
		newest int
		want   string
		err    string
	}{
		{name: "nothing", kind: plugin.CUDA, err: `device.name is cuda: no plug-in for it was found in 3 directories (trireme doctor devices lists them). try: pip install "jax-cuda13-plugin[with-cuda]", or device.plugin=FILE.so`},
		{name: "nothing for an old driver", kind: plugin.CUDA, newest: 12, err: `pip install "jax-cuda12-plugin[with-cuda]"`},
		{name: "no TPU", kind: plugin.TPU, err: "pip install libtpu"},
		{name: "virtual environment", env: map[string]string{"VIRTUAL_ENV": "ROOT/venv"}, files: []string{"venv/lib/python3.12/site-packages/" + cuda13}, kind: plugin.CUDA, want: "venv/lib/python3.12/site-packages/" + cuda13},
		{name: "python3 on PATH", env: map[string]string{"PATH": "ROOT/none:ROOT/opt/py/bin"}, files: []string{"opt/py/bin/python3", "opt/py/lib/python3.11/site-packages/" + cuda12}, kind: plugin.CUDA, want: "opt/py/lib/python3.11/site-packages/" + cuda12},
		{name: "PATH without python3", env: map[string]string{"PATH": "ROOT/opt/py/bin"}, files: []string{"opt/py/bin/perl", "opt/py/lib/python3.11/site-packages/" + cuda12}, kind: plugin.CUDA, err: "no plug-in for it"},
		{name: "pyenv", env: map[string]string{"PATH": "ROOT/pyenv/shims"}, files: []string{"pyenv/shims/python3", "pyenv/versions/3.9.1/lib/python3.9/site-packages/" + cuda13, "pyenv/versions/3.12.0/lib/python3.12/site-packages/" + cuda13}, kind: plugin.CUDA, want: "pyenv/versions/3.12.0/lib/python3.12/site-packages/" + cuda13},
		{name: "conda", env: map[string]string{"CONDA_PREFIX": "ROOT/conda"}, files: []string{"conda/lib/python3.12/site-packages/libtpu/libtpu.so"}, kind: plugin.TPU, want: "conda/lib/python3.12/site-packages/libtpu/libtpu.so"},
		{name: "user packages", files: []string{"home/.local/lib/python3.12/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"}, kind: plugin.CPU, want: "home/.local/lib/python3.12/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
		{name: "distribution", files: []string{"usr/lib/python3/dist-packages/x"}, kind: plugin.CUDA, err: "in 4 directories"},
		{name: "cache", files: []string{"home/.cache/trireme/plugins/my_cuda.so"}, kind: plugin.CUDA, want: "home/.cache/trireme/plugins/my_cuda.so"},
		{name: "system", files: []string{"usr/lib/trireme/cuda.so", "usr/lib/trireme/cpu.so"}, kind: plugin.CPU, want: "usr/lib/trireme/cpu.so"},
		{name: "JAX's variable", env: map[string]string{"PJRT_NAMES_AND_LIBRARY_PATHS": "other:ROOT/x.so,cuda:ROOT/y.so"}, files: []string{"x.so", "y.so", "usr/lib/trireme/cuda.so"}, kind: plugin.CUDA, want: "y.so"},
		{name: "TPU's variable", env: map[string]string{"TPU_LIBRARY_PATH": "ROOT/t.so"}, files: []string{"t.so"}, kind: plugin.TPU, want: "t.so"},
		{name: "13 before 12", env: map[string]string{"VIRTUAL_ENV": "ROOT/v"}, files: []string{"v/lib/python3.12/site-packages/" + cuda12, "v/lib/python3.12/site-packages/" + cuda13}, kind: plugin.CUDA, newest: 13, want: "v/lib/python3.12/site-packages/" + cuda13},
		{name: "12 for an old driver", env: map[string]string{"VIRTUAL_ENV": "ROOT/v"}, files: []string{"v/lib/python3.12/site-packages/" + cuda12, "v/lib/python3.12/site-packages/" + cuda13}, kind: plugin.CUDA, newest: 12, want: "v/lib/python3.12/site-packages/" + cuda12},
		{name: "13 without another", env: map[string]string{"VIRTUAL_ENV": "ROOT/v"}, files: []string{"v/lib/python3.12/site-packages/" + cuda13}, kind: plugin.CUDA, newest: 12, want: "v/lib/python3.12/site-packages/" + cuda13},
		{name: "a link", env: map[string]string{"VIRTUAL_ENV": "ROOT/v"}, files: []string{"v/lib/python3.12/site-packages/" + cuda13 + " -> /dev/null"}, kind: plugin.CUDA, err: "no plug-in for it"},
		{name: "a file", file: "ROOT/p.so", files: []string{"p.so"}, kind: plugin.CUDA, want: "p.so"},
		{name: "no file", file: "ROOT/p.so", kind: plugin.CUDA, err: "p.so: no such file. try: trireme doctor devices"},
		{name: "a directory", file: "ROOT/d", files: []string{"d/p.so"}, kind: plugin.CUDA, err: "d: not a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, root := machine(t, c.env, c.files...)
			found, err := plugin.Find(s, c.kind, strings.ReplaceAll(c.file, "ROOT", root), c.newest)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || found.Path != filepath.Join(root, c.want) || found.Kind != c.kind {
				t.Errorf("found %+v, %v; want %s", found.File, err, c.want)
			}
		})
	}
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]plugin.Kind{"/a/cuda/x.so": plugin.Other, "/a/xla_cuda_plugin.so": plugin.CUDA, "libtpu.so": plugin.TPU, "CPU.so": plugin.CPU} {
		if got := plugin.KindOf(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// libraries of pip's packages, where CUDA 13 and 12 have them.
func pip(site string, cuda int) (files []string) {
	for _, l := range []string{
		"cu13/lib/libcudart.so.13", "cu13/lib/libnvJitLink.so.13", "cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc-builtins.so.13.0", "cu13/lib/libcublas.so.13", "cu13/lib/libcublasLt.so.13",
		"cu13/lib/libcufft.so.12", "cu13/lib/libcusparse.so.12", "cu13/lib/libcusolver.so.12", "cu13/lib/libcupti.so.13", "cudnn/lib/libcudnn.so.9", "cudnn/lib/libcudnn_graph.so.9", "nccl/lib/libnccl.so.2",
		"nvshmem/lib/libnvshmem_host.so.3",
	} {
		if cuda == 12 {
			l = strings.NewReplacer(".so.13.0", ".so.12.8", ".so.13", ".so.12", "libcufft.so.12", "libcufft.so.11", "libcusolver.so.12", "libcusolver.so.11").Replace(l)
			l = strings.Replace(l, "cu13/", strings.TrimSuffix(strings.TrimPrefix(filepath.Base(l), "lib"), filepath.Ext(l))+"/", 1)
		}
		files = append(files, filepath.Join(site, "nvidia", l))
	}
	if cuda == 12 {
		return append(files, site+"/nvidia/cuda_nvcc/bin/ptxas", site+"/nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc")
	}
	return append(files, site+"/nvidia/cu13/bin/ptxas", site+"/nvidia/cu13/nvvm/libdevice/libdevice.10.bc", site+"/nvidia_cublas-13.1.0.3.dist-info/METADATA")
}

func TestLibraries(t *testing.T) {
	const site = "v/lib/python3.12/site-packages"
	for _, cuda := range []int{12, 13} {
		s, root := machine(t, map[string]string{"VIRTUAL_ENV": "ROOT/v"}, append(pip(site, cuda), site+"/"+map[int]string{12: cuda12, 13: cuda13}[cuda])...)
		found, err := plugin.Find(s, plugin.CUDA, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Missing) > 0 || len(found.Notes) > 0 {
			t.Errorf("CUDA %d: missing %v, notes %v", cuda, found.Missing, found.Notes)
		}
		if want := map[int]string{12: "cuda_nvcc", 13: "cu13"}[cuda]; found.Data != filepath.Join(root, site, "nvidia", want) {
			t.Errorf("CUDA %d: data %s", cuda, found.Data)
		}
		var names []string
		for _, l := range found.Libraries {
			names = append(names, l.Name)
			if cuda == 13 && l.Name == "cublas" && l.Version != "13.1.0.3" {
				t.Errorf("cublas %s", l.Version)
			}
		}
		for _, order := range [][2]string{{"cublasLt", "cublas"}, {"nvJitLink", "cusparse"}, {"cusparse", "cusolver"}, {"cublasLt", "cudnn"}, {"cudnn_graph", "cudnn"}, {"cudart", "cublasLt"}} {
			if slices.Index(names, order[0]) > slices.Index(names, order[1]) {
				t.Errorf("%s is after %s: %v", order[0], order[1], names)
			}
		}
	}
}

// Libraries of the system: a toolkit, and directories of the loader.
func TestSystemLibraries(t *testing.T) {
	s, root := machine(t, nil,
		"usr/lib/trireme/cuda.so", "etc/ld.so.conf", "etc/ld.so.conf.d/cuda.conf", "opt/cudnn/libcudnn.so.9 -> libcudnn.so.9.12.0", "opt/cudnn/libcudnn.so.9.12.0",
		"usr/local/cuda-13.0/lib64/libcublas.so.13 -> libcublas.so.13.1.0.3", "usr/local/cuda-13.0/lib64/libcublas.so.13.1.0.3", "usr/local/cuda-12.8/lib64/libcudart.so.12",
		"usr/local/cuda-13.0/bin/ptxas", "usr/local/cuda-13.0/nvvm/libdevice/libdevice.10.bc", "usr/lib64/libnccl.so.2")
	for file, text := range map[string]string{"etc/ld.so.conf": "# all\ninclude /etc/ld.so.conf.d/*.conf\n", "etc/ld.so.conf.d/cuda.conf": "relative\n/opt/cudnn # deep networks\n"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := plugin.Find(s, plugin.CUDA, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range found.Libraries {
		got[l.Name] = l.Version + " " + strings.TrimPrefix(l.File, root)
	}
	for name, want := range map[string]string{"cudnn": "9.12.0 /opt/cudnn/libcudnn.so.9", "cublas": "13.1.0.3 /usr/local/cuda-13.0/lib64/libcublas.so.13", "nccl": "2 /usr/lib64/libnccl.so.2", "cudart": ""} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if found.Data != filepath.Join(root, "usr/local/cuda-13.0") {
		t.Errorf("data %q", found.Data)
	}
	var missing []string
	for _, m := range found.Missing {
		missing = append(missing, m.Name)
		if m.Name == "cudart" && (m.Pip != "nvidia-cuda-runtime" || m.Apt != "cuda-libraries-13-0" || !m.Required) {
			t.Errorf("%+v", m)
		}
	}
	if want := []string{"cudart", "nvJitLink", "nvrtc", "cublasLt", "cufft", "cusparse", "cusolver", "cupti", "nvshmem_host"}; !slices.Equal(missing, want) {
		t.Errorf("missing %v, want %v", missing, want)
	}
}

// Other CUDA libraries in LD_LIBRARY_PATH are not chosen before those beside the plug-in, and are noted.
func TestConflict(t *testing.T) {
	const site = "v/lib/python3.12/site-packages"
	s, root := machine(t, map[string]string{"VIRTUAL_ENV": "ROOT/v", "LD_LIBRARY_PATH": "ROOT/own:ROOT/old"},
		append(pip(site, 13), site+"/"+cuda13, "old/libcudnn.so.9", "old/libcublas.so.12", "own/libother.so.1")...)
	found, err := plugin.Find(s, plugin.CUDA, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range found.Libraries {
		if !strings.HasPrefix(l.File, filepath.Join(root, site)) {
			t.Errorf("chose %s", l.File)
		}
	}
	if len(found.Notes) != 1 || !strings.Contains(found.Notes[0], root+"/old with other CUDA libraries (libcublas.so.12, libcudnn.so.9)") {
		t.Errorf("notes %q", found.Notes)
	}
}

func TestSettings(t *testing.T) {
	const site = "v/lib/python3.12/site-packages"
	files := append(pip(site, 13), site+"/"+cuda13, "usr/lib/trireme/cpu.so")
	settings := func(env map[string]string, kind plugin.Kind, gpus plugin.GPUs) map[string]string {
		env["VIRTUAL_ENV"] = "ROOT/v"
		s, root := machine(t, env, files...)
		found, err := plugin.Find(s, kind, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, s := range found.Settings(gpus) {
			out[s.Name] = strings.ReplaceAll(s.Value, root, "")
		}
		return out
	}
	for _, c := range []struct {
		name string
		got  map[string]string
		want string
	}{
		{"cpu", settings(map[string]string{}, plugin.CPU, plugin.GPUs{Hopper: true}), ""},
		{"cuda", settings(map[string]string{}, plugin.CUDA, plugin.GPUs{}), "CUDA_DEVICE_ORDER=PCI_BUS_ID XLA_FLAGS=--xla_gpu_cuda_data_dir=/" + site + "/nvidia/cu13"},
		{"hopper", settings(map[string]string{"XLA_FLAGS": "--xla_a=1"}, plugin.CUDA, plugin.GPUs{Hopper: true}), "CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_DEVICE_ORDER=PCI_BUS_ID XLA_FLAGS=--xla_a=1 --xla_gpu_cuda_data_dir=/" + site + "/nvidia/cu13"},
		{"the user's", settings(map[string]string{"XLA_FLAGS": "--xla_gpu_cuda_data_dir=/d", "CUDA_DEVICE_MAX_CONNECTIONS": "8", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, plugin.CUDA, plugin.GPUs{Hopper: true}), ""},
	} {
		var list []string
		for k, v := range c.got {
			list = append(list, k+"="+v)
		}
		slices.Sort(list)
		if got := strings.Join(list, " "); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

// TestPrepare loads libraries in two directories, one depends on the other, and a plug-in that
// opens them by their versioned names, as NVIDIA's do.
func TestPrepare(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: there are CUDA plug-ins for Linux only")
	}
	const site = "v/lib/python3.12/site-packages"
	s, root := machine(t, map[string]string{"VIRTUAL_ENV": "ROOT/v"}, append(pip(site, 13), site+"/"+cuda13)...)
	lib := func(name string) string { return filepath.Join(root, site, "nvidia", name) }
	for _, f := range pip(site, 13) {
		if strings.Contains(f, "/lib/lib") {
			nvmltest.Compile(t, filepath.Join(root, f), "int unused(void) { return 0; }")
		}
	}
	nvmltest.Compile(t, lib("cu13/lib/libcublasLt.so.13"), "int lt(void) { return 40; }")
	nvmltest.Compile(t, lib("cudnn/lib/libcudnn.so.9"), "int lt(void); int dnn(void) { return lt() + 2; }", lib("cu13/lib/libcublasLt.so.13"))
	plug := filepath.Join(root, site, cuda13)
	nvmltest.Compile(t, plug, `#include <dlfcn.h>
		int answer(void) {
			void *h = dlopen("libcudnn.so.9", RTLD_NOW);
			return h ? ((int (*)(void))dlsym(h, "dnn"))() : 0;
		}`)
	found, err := plugin.Find(s, plugin.CUDA, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"XLA_FLAGS", "CUDA_DEVICE_ORDER"} {
		t.Setenv(v, "") // restored at the end
	}
	if err := found.Prepare(plugin.GPUs{}); err != nil {
		t.Fatal(err)
	}
	h, err := dl.Open(plug, true)
	if err != nil {
		t.Fatal(err)
	}
	var answer func() int32
	bind(t, &answer, h, "answer")
	if got := answer(); got != 42 {
		t.Errorf("the plug-in called libraries that answer %d", got)
	}
	// C code sees the variables.
	libc, err := dl.Open("libc.so.6", true)
	if err != nil {
		t.Fatal(err)
	}
	var getenv func(string) string
	bind(t, &getenv, libc, "getenv")
	if got := getenv("XLA_FLAGS"); !strings.HasSuffix(got, "/nvidia/cu13") {
		t.Errorf("C reads XLA_FLAGS=%q", got)
	}
}

// bind sets a function variable to a function of a library.
func bind(t *testing.T, to any, library uintptr, name string) {
	t.Helper()
	symbol, err := dl.Symbol(library, name)
	if err != nil {
		t.Fatal(err)
	}
	dl.Bind(to, symbol)
}

// A required library that cannot be loaded is an error that names it.
func TestPrepareFails(t *testing.T) {
	const site = "v/lib/python3.12/site-packages"
	s, _ := machine(t, map[string]string{"VIRTUAL_ENV": "ROOT/v"}, site+"/"+cuda13, site+"/nvidia/cu13/lib/libcufft.so.12", site+"/nvidia/cudnn/lib/libcudnn.so.9")
	found, err := plugin.Find(s, plugin.CUDA, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"XLA_FLAGS", "CUDA_DEVICE_ORDER"} {
		t.Setenv(v, "")
	}
	if err := found.Prepare(plugin.GPUs{}); err == nil || !strings.Contains(err.Error(), "NVIDIA's library cudnn cannot be loaded") {
		t.Errorf("an empty libcudnn: %v", err)
	}
}

func FuzzLoaderConfig(f *testing.F) {
	for _, s := range []string{"/opt/lib\n", "include /etc/ld.so.conf.d/*.conf", "include ld.so.conf\ninclude ld.so.conf\ninclude ld.so.conf", "include [", "#\n\x00/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, root := machine(t, nil, "usr/lib/trireme/cuda.so", "etc/ld.so.conf")
		if err := os.WriteFile(filepath.Join(root, "etc/ld.so.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := plugin.Find(s, plugin.CUDA, "", 0); err != nil {
			t.Fatal(err)
		}
	})
}
