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

// A training program: one process, a tiny Llama, rows of token ids.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	cfg, err := train.Load("testdata/example/run.yaml", "output_dir="+dir, "training.seed=1")
	check(err)
	world, err := collective.NewLocal(1, collective.Config{})
	check(err)
	run, err := train.Open(ctx, cfg, train.Deps{Registry: model.Registry{llama.Family}, World: world[0], ProcessGroup: checkpoint.SingleProcess{}})
	check(err)
	defer run.Close()
	var losses []float64
	for step, err := range run.Steps(ctx) { // one optimizer step each
		check(err)
		losses = append(losses, step.Loss)
	}
	check(run.Export(ctx, filepath.Join(dir, "final_model"))) // a Hugging Face directory
	fmt.Println(len(losses), "steps, the loss fell:", losses[29] < losses[0]/2)
	// Output: 30 steps, the loss fell: true
}

// Load reports every invalid key at once.
func ExampleLoad() {
	_, err := train.Load("testdata/example/run.yaml", "training.learning_rat=1e-3", "training.micro_batch_size=none")
	fmt.Println(err)
	// Output:
	// assignment training.learning_rat=1e-3: unknown key "learning_rat" under training. did you mean "learning_rate"?
	// assignment training.micro_batch_size=none: training.micro_batch_size: "none" is not an integer
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
