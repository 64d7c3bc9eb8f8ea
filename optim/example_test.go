package optim_test

import (
	"fmt"
	"log"

	"trireme/device"
	"trireme/optim"
	"trireme/tensor"
)

func ExampleSchedule() {
	s := optim.DefaultSchedule()
	s.LearningRate, s.LRScheduler, s.WarmupSteps = 1e-3, "cosine", 10
	s = s.WithTotalSteps(100)
	for _, step := range []int{0, 5, 10, 55, 99} {
		fmt.Printf("step %d: %.2e\n", step, s.At(step))
	}
	// Output:
	// step 0: 0.00e+00
	// step 5: 5.00e-04
	// step 10: 1.00e-03
	// step 55: 5.00e-04
	// step 99: 3.05e-07
}

// One update of two elements by AdamW. Package parallel does this for every shard of a model.
func ExampleAdamW() {
	b, err := device.Open("cpu", device.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	adamw := optim.AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
	value := func(dt tensor.DType, host []byte, shape ...int) *tensor.Tensor {
		t := b.New(tensor.Optimizer, dt, shape...)
		b.Upload(t, host)
		return t
	}
	s := optim.Slice{
		P:    value(tensor.F32, tensor.AsBytes([]float32{1, -1}), 2),
		G:    value(tensor.F32, tensor.AsBytes([]float32{0.5, 2}), 2),
		Ends: value(tensor.I64, tensor.AsBytes([]int64{2}), 1), // one group
	}
	for _, slot := range adamw.Slots() { // moments, which start at 0
		t := b.New(tensor.Optimizer, slot.DType, 2)
		b.Fill(t, 0)
		s.State = append(s.State, t)
	}
	hyper := adamw.Hyper(0.1, 0, 1) // learning rate 0.1, no weight decay, first update
	scalars := make([]float64, tensor.ScalarCount)
	scalars[tensor.ScalarScale], scalars[tensor.ScalarApply] = 1, 1
	adamw.Step(b, s, value(tensor.F64, tensor.AsBytes(hyper), 1, len(hyper)), value(tensor.F64, tensor.AsBytes(scalars), len(scalars)))
	fmt.Printf("%.3f\n", tensor.Host[float32](s.P)) // each by the learning rate
	// Output: [0.900 -1.100]
}
