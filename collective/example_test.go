package collective_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"trireme/collective"
	"trireme/device"
	"trireme/tensor"
)

// An all-reduce among four ranks, which are goroutines of this process.
func Example() {
	worlds, err := collective.NewLocal(4, collective.Config{})
	if err != nil {
		log.Fatal(err)
	}
	sums := make([]float32, len(worlds))
	var wg sync.WaitGroup
	for rank, world := range worlds {
		wg.Go(func() {
			defer world.Close()
			b, err := device.Open("cpu", device.Options{})
			if err != nil {
				log.Fatal(err)
			}
			defer b.Close()
			group, err := world.Group("all", []int{0, 1, 2, 3})
			if err != nil {
				log.Fatal(err)
			}
			t := b.New(tensor.Grads, tensor.F32, 1)
			b.Fill(t, float64(rank+1))
			if err := group.AllReduce(context.Background(), t, collective.Sum, "example"); err != nil {
				log.Fatal(err)
			}
			sums[rank] = tensor.Host[float32](t)[0]
		})
	}
	wg.Wait()
	fmt.Println(sums)
	// Output: [10 10 10 10]
}
