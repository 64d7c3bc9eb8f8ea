package train_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"trireme/collective"
	"trireme/device"
	"trireme/internal/backend/xla"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
	"trireme/optim"
	"trireme/train"
)

// openXLA builds all ranks on devices of the CPU plug-in.
func (c recordedCase) openXLA(t *testing.T) []*recordedRank {
	t.Helper()
	plugin, err := pjrt.Load(pjrttest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	pc, err := plugin.NewClient([]pjrt.Option{{Name: "cpu_device_count", Value: int64(c.world)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, d := range pc.Devices() {
		ids = append(ids, d.ID())
	}
	client := xla.NewClient(pc, ids, nil)
	t.Cleanup(func() { client.Close(); pc.Close() })
	worlds, err := collective.NewLocal(c.world, collective.Config{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	config, err := families.ParseConfig("config.json", []byte(c.recordedTask.config))
	if err != nil {
		t.Fatal(err)
	}
	ranks := make([]*recordedRank, c.world)
	for r, err := range c.each(ranks, func(r int) error {
		cpu, err := device.Open("cpu", device.Options{Threads: 1, Reserve: 1 << 30})
		if err != nil {
			return err
		}
		b := xla.New(client, pc.Devices()[r], cpu)
		t.Cleanup(func() { b.Close() })
		t.Cleanup(func() { worlds[r].Close() })
		k := &recordedRank{b: b}
		ranks[r] = k
		k.Components, err = c.config.Build(b, config, recordedPositions, train.Ranks{Ranks: b.World(worlds[r]), Local: max(1, c.world/2)}, true)
		if err != nil {
			return err
		}
		t.Cleanup(func() { k.Engine.Close() })
		if err := k.Engine.Init(7); err != nil {
			return err
		}
		return k.Engine.Refresh(context.Background())
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	return ranks
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
	want, got := c.open(t, false), c.openXLA(t)
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
	if testing.Short() {
		t.Skip("compiles a program per case")
	}
	for _, task := range recordedTasks {
		for world, strategy := range map[int]string{1: "no_shard", 4: "full_shard"} {
			c := recordedCase{recordedTask: task, world: world, accum: 1, config: train.Default()}
			c.config.Parallel.Strategy = strategy
			c.config.Training.MicroBatchSize = recordedRows
			c.config.Training.Optimizer = optim.Config{"name": "sgd"} // Adam amplifies the rounding of gradients near 0
			c.config.Precision = train.Precision{ParamDType: "float32", ReduceDType: "float32", BufferDType: "float32"}
			t.Run(fmt.Sprintf("%s/%s on %d", task.name, strategy, world), c.testXLA)
		}
	}
}
