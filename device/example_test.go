package device_test

import (
	"fmt"
	"log"

	"trireme/device"
	"trireme/tensor"
)

// The device meta counts memory without allocating it.
func ExampleOpen() {
	meta, err := device.Open("meta", device.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer meta.Close()
	w := meta.New(tensor.Params, tensor.BF16, 1<<20, 1<<12)
	fmt.Println(w.Shape(), "needs", device.Bytes(meta.Meter().Read().Live[tensor.Params]))
	// Output:
	// [1048576 4096] needs 8.59 GB (8.00 GiB)
}
