package device

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"trireme/internal/backend/xla/cudnn"
	"trireme/internal/nvml"
	"trireme/internal/nvml/nvmltest"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
	"trireme/internal/pjrt/plugin"
)

// The ranks of a process share one client, which closes after the last of them.
func TestSharedClient(t *testing.T) {
	c := DefaultConfig()
	c.Name, c.Plugin = XLA, cpuPlugin(t)
	const ranks = 3
	opened := make([]*client, ranks)
	var all sync.WaitGroup
	for r := range ranks {
		all.Go(func() {
			var err error
			if opened[r], err = acquire(c, Process{Rank: r, Ranks: ranks}); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if opened[0] != opened[1] || opened[1] != opened[2] || len(opened[0].Devices()) != ranks || opened[0].Platform() != "cpu" {
		t.Errorf("%d devices of %s", len(opened[0].Devices()), opened[0].Platform())
	}
	other, err := acquire(c, Process{Ranks: 1})
	if err != nil {
		t.Fatal(err)
	}
	if other == opened[0] || len(other.Devices()) != 1 {
		t.Error("a process of another size has the same client")
	}
	for _, s := range append(opened, other) {
		if err := s.release(); err != nil {
			t.Error(err)
		}
	}
	if len(clients) != 0 {
		t.Errorf("%d clients are left", len(clients))
	}
}

// cpuPlugin is a CPU plug-in under a name that says so.
func cpuPlugin(t *testing.T) string {
	link := filepath.Join(t.TempDir(), "cpu.so")
	if err := os.Symlink(pjrttest.CPU(t), link); err != nil {
		t.Fatal(err)
	}
	return link
}

// XLA's plug-in for processors has no collectives between processes.
func TestClientOfProcesses(t *testing.T) {
	c := DefaultConfig()
	c.Name, c.Plugin = XLA, cpuPlugin(t)
	want := "runs all ranks in one process, and this job has 2 processes. try: device.ranks_per_process=6"
	if s, err := acquire(c, Process{Index: 1, Count: 2, Ranks: 3}); s != nil || err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func TestClientOptions(t *testing.T) {
	c := DefaultConfig()
	values := func(options []pjrt.Option) map[string]any {
		m := map[string]any{}
		for _, o := range options {
			m[o.Name] = o.Value
		}
		return m
	}
	m := values(clientOptions(plugin.CUDA, c, Process{Index: 1, Count: 4, Ranks: 2, Local: 2}))
	visible, _ := m["visible_devices"].([]int64)
	if m["memory_fraction"] != float32(0.9) || m["preallocate"] != true || m["node_id"] != int64(1) || m["num_nodes"] != int64(4) || len(visible) != 2 || visible[0] != 2 || visible[1] != 3 {
		t.Errorf("cuda: %v", m)
	}
	if m := values(clientOptions(plugin.CUDA, c, Process{})); m["num_nodes"] != nil || len(m["visible_devices"].([]int64)) != 1 {
		t.Errorf("one process: %v", m)
	}
	if m := values(clientOptions(plugin.CPU, c, Process{Ranks: 8})); len(m) != 1 || m["cpu_device_count"] != int64(8) {
		t.Errorf("cpu: %v", m)
	}
	if m := clientOptions(plugin.Other, c, Process{}); len(m) != 0 {
		t.Errorf("other: %v", m)
	}
}

// fakeCUDA is the code of a library that is not a plug-in.
const fakeCUDA = "int nothing(void) { return 0; }"

func TestClientErrors(t *testing.T) {
	driver := nvmltest.Library(t)
	home := t.TempDir()
	library := filepath.Join(t.TempDir(), "cuda.so")
	nvmltest.Compile(t, library, fakeCUDA)
	for _, c := range []struct {
		name   string
		env    map[string]string
		driver string
		config Config
		ranks  int
		fake   map[string]string // state of the driver
		err    string
	}{
		{name: "no plug-in", driver: driver, config: Config{Name: CUDA}, err: `device.name is cuda: no plug-in for it was found in 3 directories (trireme doctor devices lists them). try: pip install "jax-cuda13-plugin[with-cuda]", or device.plugin=FILE.so`},
		{name: "no plug-in, old driver", driver: driver, config: Config{Name: CUDA}, fake: map[string]string{"FAKE_NVML_CUDA": "12020"}, err: `pip install "jax-cuda12-plugin[with-cuda]"`},
		{name: "no plug-in, no driver", driver: "/none.so", config: Config{Name: TPU}, err: "device.name is tpu: no plug-in"},
		{name: "no driver", driver: "/none.so", config: Config{Name: CUDA, Plugin: library}, err: "device: no NVIDIA GPU: this machine has no driver. try: device.name=cpu, or trireme doctor devices"},
		{name: "no file", driver: driver, config: Config{Name: XLA, Plugin: "/none/p.so"}, err: "device.plugin /none/p.so: no such file. try: trireme doctor devices"},
		{name: "no library of NVIDIA", driver: driver, config: Config{Name: CUDA, Plugin: library}, err: "needs libraries of NVIDIA that were not found: cudart, nvJitLink, nvrtc, cublasLt, cublas, cudnn, ptxas and libdevice. try: pip install nvidia-cuda-runtime nvidia-nvjitlink"},
		{name: "too few GPUs", driver: driver, config: Config{Name: CUDA, Plugin: library}, ranks: 3, err: "device: 3 ranks on this machine need 3 devices: cuda has 2. try: ranks=2"},
		{name: "hidden GPUs", driver: driver, env: map[string]string{"CUDA_VISIBLE_DEVICES": "1"}, config: Config{Name: CUDA, Plugin: library}, ranks: 2, err: "device: 2 ranks on this machine need 2 GPUs: CUDA_VISIBLE_DEVICES shows 1 of its 2. try: unset CUDA_VISIBLE_DEVICES"},
		{name: "no GPU", driver: driver, config: Config{Name: CUDA, Plugin: library}, fake: map[string]string{"FAKE_NVML_COUNT": "0"}, err: "device: this machine has no NVIDIA GPU. try: device.name=cpu"},
		{name: "lost GPU", driver: driver, config: Config{Name: CUDA, Plugin: library}, fake: map[string]string{"FAKE_NVML_LOST": "1"}, err: "GPU 1: nvml: nvmlDeviceGetHandleByIndex_v2: the GPU has fallen off the bus or is inaccessible"},
		{name: "no plug-in in the file", driver: driver, config: Config{Name: XLA, Plugin: driver}, err: "not a PJRT plug-in: it has no function GetPjrtApi. try: trireme doctor devices"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.driver != driver && c.config.Name == CUDA && nvml.HasCUDA() {
				t.Skip("SKIPPED: this machine has a driver")
			}
			for k, v := range c.fake {
				t.Setenv(k, v)
			}
			s := plugin.System{Root: t.TempDir(), Home: home, Cache: filepath.Join(home, ".cache"), LookupEnv: func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }}
			_, _, err := newClient(s, c.driver, c.config, Process{Ranks: c.ranks})
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
		})
	}
}

// TestCuDNN checks the description of a GPU for attention.
func TestCuDNN(t *testing.T) {
	g := gpus{known: true, visible: []nvml.Card{{Major: 9}, {Major: 10, Minor: 3}}}
	found := func(version string) plugin.Found {
		return plugin.Found{File: plugin.File{Kind: plugin.CUDA}, Libraries: []plugin.Library{{Name: "cublas", Version: "13.1.0"}, {Name: "cudnn", Version: version}}}
	}
	for _, c := range []struct {
		found plugin.Found
		index int
		want  *cudnn.Device
	}{
		{found("9.10.2.21"), 0, &cudnn.Device{Major: 9, CuDNN: 91002}},
		{found("9.19.0"), 1, &cudnn.Device{Major: 10, Minor: 3, CuDNN: 91900}},
		{found("9"), 0, &cudnn.Device{Major: 9}},
		{found("9.10.2.21"), 2, nil},
		{plugin.Found{File: plugin.File{Kind: plugin.CUDA}}, 0, nil},
		{plugin.Found{File: plugin.File{Kind: plugin.CPU}, Libraries: found("9.10.2").Libraries}, 0, nil},
	} {
		if got := g.cudnn(c.found, c.index); !reflect.DeepEqual(got, c.want) {
			t.Errorf("GPU %d: %+v, want %+v", c.index, got, c.want)
		}
	}
}

func TestCheckDriver(t *testing.T) {
	g := gpus{known: true, driver: "535.129.03", cuda: nvml.Version{Major: 12, Minor: 2}}
	found := plugin.Found{File: plugin.File{Path: "/p.so"}}
	want := `device: plug-in /p.so is for CUDA 13.0: the driver 535.129.03 runs CUDA 12.2. try: pip install "jax-cuda12-plugin[with-cuda]", or a newer driver`
	if err := g.checkDriver(13000, found); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for _, version := range []int64{0, 12080} { // not for CUDA, and a newer minor version, which an older driver runs
		if err := g.checkDriver(version, found); err != nil {
			t.Error(err)
		}
	}
	if err := (gpus{}).checkDriver(13000, found); err != nil {
		t.Errorf("an unknown driver: %v", err)
	}
}

func TestCheckPlatform(t *testing.T) {
	found := plugin.Found{File: plugin.File{Path: "/p.so"}}
	const want = "device.plugin /p.so is a plug-in for cpu, and device.name is cuda. try: device.name=xla"
	if err := checkPlatform(CUDA, "cpu", found); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for name, platform := range map[Name]string{CUDA: "cuda", TPU: "tpu", XLA: "cpu"} {
		if err := checkPlatform(name, platform, found); err != nil {
			t.Error(err)
		}
	}
}
