package autograd_test

import (
	"fmt"
	"log"

	"trireme/autograd"
	"trireme/device"
	"trireme/tensor"
)

// A forward and a backward pass of one linear layer: y = x w^T, and w's gradient is dy^T x.
func Example() {
	b, err := device.Open("cpu", device.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	value := func(shape []int, v ...float32) *tensor.Tensor {
		t := b.New(tensor.Activations, tensor.F32, shape...)
		b.Upload(t, tensor.AsBytes(v))
		return t
	}
	x := value([]int{2, 2}, 1, 2, 3, 4)
	w := autograd.Const(value([]int{1, 2}, 10, 1))
	grad := value([]int{1, 2}, 0, 0)
	w.SetGradDst(func() (*tensor.Tensor, bool) { return grad, false })

	tape := autograd.NewTape(b, tensor.F32, true)
	y := tape.Linear(autograd.Const(x), []*autograd.Var{w}, nil)
	fmt.Println("y:", tensor.Host[float32](y.Value))
	tape.Seed(y, value([]int{2, 1}, 1, 1)) // the gradient of the sum of y
	tape.Backward()
	fmt.Println("gradient of w:", tensor.Host[float32](grad))
	// Output:
	// y: [12 34]
	// gradient of w: [4 6]
}
