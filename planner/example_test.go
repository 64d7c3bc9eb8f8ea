package planner_test

import (
	"context"
	"fmt"
	"log"

	"trireme/model"
	"trireme/model/llama"
	"trireme/planner"
	"trireme/train"
)

// The parameters and traffic of rank 0 of four under FSDP. The plan runs a step on a backend that counts
// memory and computes nothing.
func ExampleJob_Run() {
	families := model.Registry{llama.Family}
	config, err := families.ParseConfig("config.json", []byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 32000,
		"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 8, "num_attention_heads": 8, "max_position_embeddings": 2048}`))
	if err != nil {
		log.Fatal(err)
	}
	cfg := train.Default()
	cfg.Parallel.Strategy = "full_shard"
	plan, err := planner.Job{Config: cfg, Model: config, Ranks: 4, Positions: 512}.Run(context.Background(), 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Parameters, "parameters")
	for _, t := range plan.Sent {
		fmt.Println(t.Op, t.Bytes)
	}
	// Output:
	// 58073600 parameters
	// all_gather 299288064
	// reduce_scatter 174220800
	// all_reduce 816
}
