package train_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"trireme/collective"
	"trireme/data"
	"trireme/device"
	"trireme/model"
	"trireme/model/llama"
	"trireme/optim"
	"trireme/parallel"
	"trireme/train"
)

// steady returns the objects and bytes a step leaves on the Go heap.
func steady(t *testing.T, hidden, rows int) (objects, size uint64) {
	t.Helper()
	b, err := device.Open("cpu", device.Options{Threads: 2, Reserve: 1 << 32})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer worlds[0].Close()
	mesh, err := parallel.NewMesh(worlds[0], parallel.MeshShape{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	mc, err := model.Registry{llama.Family}.ParseConfig("config.json", fmt.Appendf(nil, `{"architectures": ["LlamaForCausalLM"], "vocab_size": %d,
		"hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 64}`, 8*hidden, hidden, 2*hidden))
	if err != nil {
		t.Fatal(err)
	}
	m, err := mc.Make(b, 64)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := parallel.ParseStrategy("full_shard")
	e, err := parallel.New(b, mesh, m.Units(), parallel.Options{Strategy: s, WorldInvariant: true, Optim: optim.Grouping{Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Init(1); err != nil {
		t.Fatal(err)
	}
	st := train.NewStepper(b, m, e, 1, 0)
	micros := make([]data.MicroBatch, 2)
	for i := range micros {
		micros[i] = data.UniformMicroBatch(rows, rows*64, 64, data.Info{})
	}
	step := func(n int) {
		if err := st.Step(context.Background(), micros, func(int) float64 { return 1e-4 }); err != nil {
			t.Fatal(err)
		}
		st.Result()
	}
	const steps = 4
	step(0)
	step(1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for n := range steps {
		step(2 + n)
	}
	runtime.ReadMemStats(&after)
	return (after.Mallocs - before.Mallocs) / steps, (after.TotalAlloc - before.TotalAlloc) / steps
}

// The Go heap use of a step, tensor handles only, does not grow with the model or the batch.
func TestSteadyStepDoesNotFillTheHeap(t *testing.T) {
	n, size := steady(t, 16, 1)
	for _, large := range [][2]int{{128, 1}, {16, 8}} {
		m, more := steady(t, large[0], large[1])
		if m > n+n/10+50 || more > size+size/5+8<<10 {
			t.Errorf("hidden size %d, %d rows: %d objects of %d bytes a step; hidden size 16, 1 row: %d of %d", large[0], large[1], m, more, n, size)
		}
		t.Logf("%v: %d objects of %d bytes, %d of %d", large, m, more, n, size)
	}
}
