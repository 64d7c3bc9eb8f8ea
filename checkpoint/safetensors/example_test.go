package safetensors_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// A layout has the offset of every tensor before anything is written, so several processes can write
// ranges of one file.
func ExampleLayout() {
	layout, err := safetensors.NewLayout([]safetensors.Entry{{Name: "weight", DType: tensor.F32, Shape: tensor.Shape{2, 2}}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.CreateTemp("", "example-*.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(file.Name())
	if err := errors.Join(
		layout.WriteHeader(file),
		layout.WriteRange(file, "weight", 2, tensor.AsBytes([]float32{3, 4})), // in any order
		layout.WriteRange(file, "weight", 0, tensor.AsBytes([]float32{1, 2})),
		file.Close(),
	); err != nil {
		log.Fatal(err)
	}

	f, err := safetensors.Open(file.Name())
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	row := make([]float32, 2)
	if err := f.ReadAs("weight", tensor.F32, 2, 2, tensor.AsBytes(row)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(row)
	// Output: [3 4]
}
