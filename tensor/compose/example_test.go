package compose_test

import (
	"fmt"
	"log"

	"trireme/device"
	"trireme/tensor"
	"trireme/tensor/compose"
)

// Variance of each row, as a formula in operations that every backend has.
func ExampleScope() {
	b, err := device.Open("cpu", device.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	x := b.New(tensor.Activations, tensor.F32, 2, 4)
	b.Upload(x, tensor.AsBytes([]float32{1, 2, 3, 4, 2, 2, 2, 2}))
	s := compose.NewScope(b)
	defer s.Release()
	centered := s.Sub(x, s.Mean(x))
	fmt.Println(tensor.Host[float32](s.Mean(s.Mul(centered, centered))))
	// Output: [1.25 0]
}
