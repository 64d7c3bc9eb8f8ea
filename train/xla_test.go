package train_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"trireme/collective"
	"trireme/device"
	"trireme/internal/backend/xla"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
	"trireme/train"
)

// Environment variables that choose another device than the CPU plug-in for the reference runs, on one rank.
const (
	deviceVar = "TRAIN_TEST_DEVICE" // cuda, xla or tpu
	pluginVar = "TRAIN_TEST_PLUGIN" // plug-in file, for device.plugin
)

// chosenDevice returns the device of the environment, "" for none.
func chosenDevice() device.Name { return device.Name(os.Getenv(deviceVar)) }

// xlaDevices returns a function that opens the device of a rank, on n devices of the CPU plug-in or of the
// environment's.
func xlaDevices(t *testing.T, n int) func(w collective.World) (device.Device, collective.World, error) {
	t.Helper()
	if name := chosenDevice(); name != "" {
		c := device.DefaultConfig()
		c.Name, c.Plugin, c.Preallocate, c.Threads = name, os.Getenv(pluginVar), false, 1
		return func(w collective.World) (device.Device, collective.World, error) {
			b, err := c.Open(device.Process{Rank: w.Rank(), Ranks: n}, nil, n, nil)
			if err != nil {
				return nil, nil, err
			}
			return b, device.World(b, w), nil
		}
	}
	plugin, err := pjrt.Load(pjrttest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	devices, err := plugin.NewClient([]pjrt.Option{{Name: "cpu_device_count", Value: int64(n)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, d := range devices.Devices() {
		ids = append(ids, d.ID())
	}
	fast := []pjrt.Flag{{Name: "xla_backend_optimization_level", Value: int64(0)}, {Name: "xla_llvm_disable_expensive_passes", Value: true}} // to compile
	programs := xla.NewClient(devices, ids, fast)
	t.Cleanup(func() {
		programs.Close()
		if err := devices.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(w collective.World) (device.Device, collective.World, error) {
		host, err := device.Open("cpu", device.Options{Threads: 1, Reserve: 1 << 30})
		if err != nil {
			return nil, nil, err
		}
		b := xla.New(programs, devices.Devices()[w.Rank()], host)
		return b, b.World(w), nil
	}
}

// floats decodes the elements of float state.
func floats(b []byte) (out []float64) {
	for ; len(b) >= 4; b = b[4:] {
		out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	}
	return out
}

// A step on XLA has the results of a step on cpu, but for rounding.
func (c recordedCase) testXLA(t *testing.T) {
	want := c.open(t, false)
	c.devices = xlaDevices(t, c.world)
	got := c.open(t, false)
	for step := range 3 {
		for i, ranks := range [][]*recordedRank{want, got} {
			for r, err := range c.each(ranks, func(r int) error { return c.step(ranks[r], r, step) }) {
				if err != nil {
					t.Fatalf("rank %d of %d, step %d: %v", r, i, step, err)
				}
			}
		}
		for r := range want {
			_, w := want[r].state(t)
			_, g := got[r].state(t)
			if math.Abs(w.Loss-g.Loss) > 1e-4*math.Abs(w.Loss) || math.Abs(w.GradNorm-g.GradNorm) > 1e-3*w.GradNorm || w.Tokens != g.Tokens || w.Applied != g.Applied {
				t.Fatalf("step %d, rank %d: loss %v, norm %v, tokens %d; on cpu %v, %v, %d", step, r, g.Loss, g.GradNorm, g.Tokens, w.Loss, w.GradNorm, w.Tokens)
			}
		}
	}
	for r := range want {
		ws, gs := want[r].download(), got[r].download()
		for name, w := range ws {
			a, b := floats(w), floats(gs[name])
			top := 1e-3
			for _, v := range a {
				top = max(top, math.Abs(v))
			}
			for i := range a {
				if !(math.Abs(a[i]-b[i]) <= 1e-4*top) {
					t.Errorf("rank %d: %s element %d: %v, on cpu %v", r, name, i, b[i], a[i])
					break
				}
			}
		}
	}
}

// download returns a rank's state.
func (k *recordedRank) download() map[string][]byte {
	state := map[string][]byte{}
	for _, item := range k.Engine.State() {
		text := make([]byte, item.Data.Bytes())
		k.b.Download(text, item.Data)
		state[fmt.Sprint(item.Kind, " ", item.Name, " ", item.Box)] = text
	}
	return state
}

func TestXLAStep(t *testing.T) {
	strategies := map[int]string{4: "full_shard"}
	if allXLA() {
		strategies[1] = "no_shard"
	}
	for i, task := range recordedTasks {
		if testing.Short() && i > 0 { // all have the same goroutines
			continue
		}
		for world, strategy := range strategies {
			c := recordedCase{recordedTask: task, world: world, accum: 1, config: train.Default()}
			c.config.Parallel.Strategy = strategy
			c.config.Training.MicroBatchSize = recordedRows
			c.config.Training.Optimizer = optim.Config{"name": "sgd"} // Adam amplifies the rounding of gradients near 0
			c.config.Precision = train.Precision{ParamDType: "float32", ReduceDType: "float32", BufferDType: "float32"}
			t.Run(fmt.Sprintf("%s/%s on %d", task.name, strategy, world), c.testXLA)
		}
	}
}

// The reference runs of all families, on 1, 2, 4 and 8 replicas with all strategies; hybrid sharding on 4
// is a mesh of 2 x 2. Each run has one number of replicas, and each strategy two runs: TestXLAStep has all tasks on 4.
// XLA_CONFORMANCE=full has each run on all numbers. A device of the environment has one replica.
func TestXLAGolden(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program per case")
	}
	strategies := []string{"full_shard", "zero_1", "hybrid_shard", "shard_grad_op", "no_shard", "hybrid_shard_zero2"}
	next := 0
	for i, name := range cases {
		g := readGolden(t, filepath.Join("testdata", "golden", name))
		h := g.Hyperparameters
		worlds := []int{1, 2, 4, 8}
		if rows := h.GradientAccumulationSteps * h.MicroBatchSize; chosenDevice() != "" {
			worlds = worlds[:1]
		} else {
			worlds = slices.DeleteFunc(worlds, func(n int) bool { return rows%n != 0 })
			if n := min((i+1)%4, len(worlds)-1); !allXLA() {
				worlds = worlds[n:][:1]
			}
		}
		for _, world := range worlds {
			cfg, micro := parallel.Default(), h.MicroBatchSize
			if world > 1 {
				micro, cfg.Strategy = 1, strategies[next%len(strategies)]
				next++
			}
			t.Run(fmt.Sprintf("%s/%d/%s", name, world, cfg.Strategy), func(t *testing.T) {
				g := *g
				g.devices = xlaDevices(t, world)
				r := g.run(t, world, cfg, micro, 1)
				g.logWorst(t, r)
				g.compare(t, r)
			})
		}
	}
}

// Every family computes in bfloat16 near float32, within the tolerances of TestFamiliesMixed.
func TestXLAGoldenMixed(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program per case")
	}
	for i, name := range cases {
		if i%3 != 0 && chosenDevice() == "" && !allXLA() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, filepath.Join("testdata", "golden", name))
			g.precision, g.Hyperparameters.Steps = parallel.Precision{Param: tensor.BF16}, 2
			g.devices = xlaDevices(t, 1)
			r := g.run(t, 1, parallel.Default(), g.Hyperparameters.MicroBatchSize, 1)
			g.logWorst(t, r)
			for i := range r.loss {
				if want := g.Expected[i]; !near(r.loss[i], want.Loss, 3e-3) || !near(r.norm[i], want.GradNorm, 2e-2) {
					t.Errorf("step %d: loss %v grad_norm %v, in float32 %v %v", i+1, r.loss[i], r.norm[i], want.Loss, want.GradNorm)
				}
			}
		})
	}
}

// allXLA reports whether the tests on XLA run all their cases, which takes long.
func allXLA() bool { return os.Getenv("XLA_CONFORMANCE") == "full" }

// logWorst logs the largest relative deviations from the reference, in the form that bench/gpu reads.
func (g *golden) logWorst(t *testing.T, r *result) {
	t.Helper()
	var loss, norm float64
	for i := range r.loss {
		want := g.Expected[i]
		loss = max(loss, math.Abs(r.loss[i]-want.Loss)/math.Abs(want.Loss))
		norm = max(norm, math.Abs(r.norm[i]-want.GradNorm)/math.Abs(want.GradNorm))
	}
	t.Logf("worst deviation over %d steps: loss %.2e, grad_norm %.2e", len(r.loss), loss, norm)
}
