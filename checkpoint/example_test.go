package checkpoint_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/tensor"
)

// One rank saves a tensor; two ranks load a half each. Items name boxes of full tensors, so the world
// that loads need not be the one that saved.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	b, err := device.Open("cpu", device.Options{})
	check(err)
	defer b.Close()
	shape := tensor.Shape{4, 2}
	item := func(box tensor.Box) checkpoint.Item {
		data := b.New(tensor.Params, tensor.F32, box.Sizes...)
		return checkpoint.Item{Kind: "param", Shard: tensor.Shard{Name: "weight", DType: tensor.F32, Shape: shape, Box: box, Data: data}}
	}

	full := item(tensor.FullBox(shape))
	b.Upload(full.Data, tensor.AsBytes([]float32{0, 1, 2, 3, 4, 5, 6, 7}))
	store, err := checkpoint.NewStore(dir, "example", checkpoint.Config{}, checkpoint.SingleProcess{}, b)
	check(err)
	saved, err := store.Save(ctx, checkpoint.Meta{Step: 10}, []checkpoint.Item{full})
	check(err)

	for rank := range 2 {
		c, err := checkpoint.Open(saved.Path)
		check(err)
		half := item(tensor.FullBox(shape).Slice(0, 2*rank, 2*rank+2))
		check(c.Load(ctx, []checkpoint.Item{half}, checkpoint.LoadOptions{}))
		fmt.Println("step", c.Meta().Step, "rank", rank, tensor.Host[float32](half.Data))
		check(c.Close())
	}
	// Output:
	// step 10 rank 0 [0 1 2 3]
	// step 10 rank 1 [4 5 6 7]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
