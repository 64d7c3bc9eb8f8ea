package data_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"trireme/data"
)

// Micro-batches of a file with rows of token ids: rows end to end, targets shifted by one.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	cfg := data.DefaultConfig()
	cfg.Path = filepath.Join(dir, "rows.jsonl")
	check(os.WriteFile(cfg.Path, []byte(`{"input_ids": [1, 2, 3]}`+"\n"+`{"input_ids": [4, 5]}`+"\n"), 0o600))

	// Without a model's limits, and without a tokenizer, which ids do not need.
	sets, err := data.Open(ctx, cfg, data.ModelInfo{}, nil, nil)
	check(err)
	loader, err := data.NewLoader(sets.Train, data.LoaderConfig{MicroBatchSize: 2})
	check(err)
	defer loader.Close()
	batch, err := loader.Next(ctx)
	check(err)
	m := batch.Micro[0]
	fmt.Println("ids:    ", m.InputIDs)
	fmt.Println("targets:", m.Targets)
	fmt.Println("rows at:", m.Starts)
	// Output:
	// ids:     [1 2 3 4 5]
	// targets: [2 3 -100 5 -100]
	// rows at: [0 3 5]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
