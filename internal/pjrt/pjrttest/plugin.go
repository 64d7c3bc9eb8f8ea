package pjrttest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Names of environment variables.
const (
	cpuVar    = "PJRTTEST_CPU"
	cudaVar   = "PJRTTEST_CUDA"
	noSkipVar = "PJRTTEST_NO_SKIP"
)

// CPU returns the file of a CPU plug-in. Without one the test is skipped.
func CPU(t testing.TB) string {
	t.Helper()
	if file := os.Getenv(cpuVar); file != "" {
		return file
	}
	dir, err := installed(xlaCPU)
	if err != nil {
		missing(t, fmt.Errorf("no CPU plug-in: %w. try: %s=FILE", err, cpuVar))
	}
	return filepath.Join(dir, "xla_plugins", "xla_cpu_pjrt", "xla_cpu_pjrt.so")
}

// CUDA returns the file of a CUDA plug-in and the directory of the compiler's parts that it needs: the
// flag xla_gpu_cuda_data_dir. The test is skipped unless PJRTTEST_CUDA is set.
func CUDA(t testing.TB) (plugin, cudaDir string) {
	t.Helper()
	if os.Getenv(cudaVar) == "" {
		t.Skipf("SKIPPED: set %s=1 to compile for CUDA GPUs (installs 260 MB once)", cudaVar)
	}
	dirs := make([]string, 3)
	for i, w := range []wheel{jaxCUDA, cudaNVCC, cudaNVVM} {
		dir, err := installed(w)
		if err != nil {
			missing(t, fmt.Errorf("no CUDA plug-in: %w", err))
		}
		dirs[i] = dir
	}
	cudaDir, err := joined(dirs[1], dirs[2])
	if err != nil {
		missing(t, err)
	}
	return filepath.Join(dirs[0], "jax_plugins", "xla_cuda13", "xla_cuda_plugin.so"), cudaDir
}

// errNoWheel is the error of a platform that a plug-in is not built for.
var errNoWheel = errors.New("no wheel")

// missing skips the test, or fails it.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv(noSkipVar) != "" && !errors.Is(err, errNoWheel) {
		t.Fatal(err)
	}
	t.Skipf("SKIPPED: %v", err)
}

// joined returns a directory with bin/ptxas of one wheel and nvvm/libdevice of another.
func joined(nvcc, nvvm string) (string, error) {
	dir := filepath.Join(filepath.Dir(nvcc), "cuda-"+filepath.Base(nvcc))
	for name, target := range map[string]string{
		"bin":  filepath.Join(nvcc, "nvidia", "cu13", "bin"),
		"nvvm": filepath.Join(nvvm, "nvidia", "cu13", "nvvm"),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			return "", err
		}
	}
	return dir, nil
}

// Wheels. sums has the SHA-256 of the wheel by GOARCH, keep the files that are installed.
var (
	xlaCPU = wheel{
		name: "xla-cpu-pjrt", version: "0.0.1", keep: []string{"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
		sums: map[string]string{
			"amd64": "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
			"arm64": "8f613be6e891858f40d64f9799319502fff42689661944fc18a6ffd8210b30c9",
		},
	}
	jaxCUDA = wheel{
		name: "jax-cuda13-pjrt", version: "0.12.0.1", keep: []string{"jax_plugins/xla_cuda13/xla_cuda_plugin.so"},
		sums: map[string]string{"amd64": "5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90"},
	}
	cudaNVCC = wheel{
		name: "nvidia-cuda-nvcc", version: "13.5.37", keep: []string{"nvidia/cu13/bin/ptxas"},
		sums: map[string]string{"amd64": "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7"},
	}
	cudaNVVM = wheel{
		name: "nvidia-nvvm", version: "13.5.37", keep: []string{"nvidia/cu13/nvvm/libdevice/libdevice.10.bc"},
		sums: map[string]string{"amd64": "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070"},
	}
)

// installed returns the directory with a wheel's files, which it installs the first time.
func installed(w wheel) (string, error) {
	sum := w.sums[runtime.GOARCH]
	if runtime.GOOS != "linux" || sum == "" {
		return "", fmt.Errorf("%w: %s for %s/%s", errNoWheel, w.name, runtime.GOOS, runtime.GOARCH)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return w.install(filepath.Join(cache, "trireme", "pjrt"), sum, download)
}
