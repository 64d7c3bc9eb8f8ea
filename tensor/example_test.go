package tensor_test

import (
	"fmt"
	"log"

	"trireme/device"
	"trireme/tensor"
)

// Operations are methods of a backend and write to their first argument.
func Example() {
	cpu, err := device.Open("cpu", device.Options{Threads: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer cpu.Close()
	x := cpu.New(tensor.Activations, tensor.F32, 2, 3)
	w := cpu.New(tensor.Params, tensor.F32, 2, 3)
	y := cpu.New(tensor.Activations, tensor.F32, 2, 2)
	cpu.Upload(x, tensor.AsBytes([]float32{1, 2, 3, 4, 5, 6}))
	cpu.Upload(w, tensor.AsBytes([]float32{1, 0, 0, 1, 1, 1}))
	cpu.MatMul(y, x, w, tensor.MatMulOp{TransB: true}) // y = x w^T
	host := make([]float32, y.Elems())
	cpu.Download(tensor.AsBytes(host), y)
	fmt.Println(y.Shape(), host)
	// Output: [2 2] [1 6 4 15]
}
