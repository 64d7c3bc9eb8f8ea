package parallel_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"trireme/collective"
	"trireme/data"
	"trireme/device"
	"trireme/model"
	"trireme/model/llama"
	"trireme/optim"
	"trireme/parallel"
	"trireme/train"
)

// Two ranks, goroutines of this process, train one model under FSDP: each holds half of it.
func Example() {
	worlds, err := collective.NewLocal(2, collective.Config{})
	if err != nil {
		log.Fatal(err)
	}
	lines := make([]string, len(worlds))
	var wg sync.WaitGroup
	for rank, world := range worlds {
		wg.Go(func() {
			defer world.Close()
			line, err := trainRank(world)
			if err != nil {
				log.Fatal(err)
			}
			lines[rank] = line
		})
	}
	wg.Wait()
	fmt.Println(lines[0])
	fmt.Println(lines[1])
	// Output:
	// rank 0 holds 2768 of 5712 parameters; the loss fell: true
	// rank 1 holds 2944 of 5712 parameters; the loss fell: true
}

func trainRank(world collective.World) (line string, err error) {
	b, err := device.Open("cpu", device.Options{})
	if err != nil {
		return "", err
	}
	defer b.Close()
	config, err := model.Registry{llama.Family}.ParseConfig("config.json", []byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 16,
		"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 8}`))
	if err != nil {
		return "", err
	}
	m, err := config.Make(b, 0)
	if err != nil {
		return "", err
	}
	mesh, err := parallel.NewMesh(world, parallel.MeshShape{parallel.Shard: 2}, 0)
	if err != nil {
		return "", err
	}
	strategy, err := parallel.ParseStrategy("full_shard")
	if err != nil {
		return "", err
	}
	adamw := optim.Grouping{Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}}
	engine, err := parallel.New(b, mesh, m.Units(), parallel.Options{Strategy: strategy, WorldInvariant: true, Optim: adamw, AllGather: parallel.Default().AllGather()})
	if err != nil {
		return "", err
	}
	defer engine.Close()
	if err := engine.Init(42); err != nil {
		return "", err
	}
	ctx := context.Background()
	if err := engine.Refresh(ctx); err != nil {
		return "", err
	}
	held := 0
	for _, s := range engine.HeldParams() {
		held += s.Box.Elems()
	}
	ids := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	micro := data.UniformMicroBatch(1, len(ids), len(ids), data.Info{})
	copy(micro.InputIDs, ids)
	copy(micro.Targets, []int32{2, 3, 4, 5, 6, 7, 8, data.Ignored})
	s := train.NewStepper(b, m, engine, 1, 0)
	defer s.Close()
	first, last := 0.0, 0.0
	for step := range 20 {
		if err := s.Step(ctx, []data.MicroBatch{micro}, func(int) float64 { return 1e-2 }); err != nil {
			return "", err
		}
		if last = s.Result().Loss; step == 0 {
			first = last
		}
	}
	return fmt.Sprintf("rank %d holds %d of %d parameters; the loss fell: %t", world.Rank(), held, model.CountParams(m), last < first/2), nil
}
