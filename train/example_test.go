package train_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/model"
	"trireme/model/llama"
	"trireme/train"
)

const tinyLlama = `{"architectures": ["LlamaForCausalLM"], "vocab_size": 16, "hidden_size": 16, "intermediate_size": 32,
 "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 8}`

// A program's own loop over the steps of a run: one process, rows of token ids.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	rows := filepath.Join(dir, "rows.jsonl")
	check(os.WriteFile(rows, []byte(`{"input_ids": [1, 2, 3, 4, 5, 6]}`+"\n"+`{"input_ids": [6, 5, 4, 3, 2, 1]}`+"\n"), 0o644))

	cfg := train.Default() // what a file that says nothing asks for
	cfg.OutputDir, cfg.Data.Path, cfg.Model.Config = dir, rows, "config.json"
	cfg.Training.MaxSteps, cfg.Training.MicroBatchSize, cfg.Training.LearningRate = 30, 2, 1e-2

	families := model.Registry{llama.Family}
	config, err := families.ParseConfig("config.json", []byte(tinyLlama))
	check(err)
	world, err := collective.NewLocal(1, collective.Config{})
	check(err)
	run, err := train.Open(ctx, cfg, train.Deps{Registry: families, Model: config, World: world[0], ProcessGroup: checkpoint.SingleProcess{}})
	check(err)
	defer run.Close()
	first, last := 0.0, 0.0
	for r, err := range run.Steps(ctx) { // one optimizer step each
		check(err)
		if last = r.Loss; r.Step == 1 {
			first = last
		}
	}
	fmt.Println("the loss fell:", last < first/2)
	check(run.Export(ctx, filepath.Join(dir, "final_model"))) // a Hugging Face directory
	// Output: the loss fell: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
