package nn_test

import (
	"fmt"
	"log"

	"trireme/autograd"
	"trireme/device"
	"trireme/nn"
	"trireme/tensor"
)

// A layer has parameters without memory. The caller, usually package parallel, decides where values
// and gradients are.
func ExampleLinear() {
	b, err := device.Open("cpu", device.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	layer := nn.NewLinear("proj", 3, 2, nn.Init{Kind: nn.Ones}).WithBias()
	for _, p := range layer.Params() {
		p.Value = b.New(tensor.Params, tensor.F32, p.Shape...)
		p.Fill(b, p.Value, 42, 0)
		grad := b.New(tensor.Grads, tensor.F32, p.Shape...)
		p.SetGradDst(func() (*tensor.Tensor, bool) { return grad, false })
		defer func() { fmt.Println("gradient of", p.Name, p.Shape, tensor.Host[float32](grad)) }()
	}
	x := b.New(tensor.Activations, tensor.F32, 1, 3)
	b.Upload(x, tensor.AsBytes([]float32{1, 2, 3}))

	tape := autograd.NewTape(b, tensor.F32, true)
	y := layer.Forward(tape, autograd.Const(x))
	fmt.Println("y:", tensor.Host[float32](y.Value))
	dy := b.New(tensor.Activations, tensor.F32, 1, 2)
	b.Fill(dy, 1)
	tape.Seed(y, dy)
	tape.Backward()
	// Output:
	// y: [6 6]
	// gradient of proj.bias [2] [1 1]
	// gradient of proj.weight [2 3] [1 2 3 1 2 3]
}
