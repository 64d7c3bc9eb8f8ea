package fault_test

import (
	"errors"
	"fmt"

	"trireme/fault"
)

// A package names keys; the program that prints the error says how its users set them.
func Example() {
	err := fault.Try(fault.At("training.micro_batch_size", "is 0: it must be at least 1"), "%s", fault.Set("training.micro_batch_size", 4))
	fmt.Println(err)
	fmt.Println(fault.Text(err, func(s fault.Setting) string { return "--" + s.Key + " " + s.Value }))
	var f *fault.Error
	fmt.Println(errors.As(err, &f) && f.HasTry())
	// Output:
	// training.micro_batch_size is 0: it must be at least 1. try: training.micro_batch_size=4
	// training.micro_batch_size is 0: it must be at least 1. try: --training.micro_batch_size 4
	// true
}
