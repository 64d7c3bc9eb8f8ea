package parallel

import (
	"fmt"

	"trireme/tensor"
)

// Precision is the types of a step, named as in FSDP's MixedPrecision. Zero values are F32.
//
// With Param BF16 or F16, the optimizer updates F32 masters of this rank's range (for frozen parameters, its
// shard), and checkpoints store the masters. Gradients are accumulated in F32.
type Precision struct {
	// Param is the type of compute parameters and activations.
	Param tensor.DType
	// Reduce is the type of a micro-batch's gradients in the bucket and in collectives. Operations
	// sum in F32 and round once.
	Reduce tensor.DType
	// Buffer is the type of constant tables: rotary angles.
	Buffer tensor.DType
}

func (p Precision) check() {
	for _, dt := range []tensor.DType{p.Param, p.Reduce, p.Buffer} {
		if dt != tensor.F32 && dt != tensor.BF16 && dt != tensor.F16 {
			panic(fmt.Sprintf("parallel: a step cannot compute in %v", dt))
		}
	}
}

// Precision returns Options.Precision.
func (e *Engine) Precision() Precision { return e.precision }
