package backendtest

import (
	"fmt"

	"trireme/tensor"
)

// quantized cover 8-bit weights.
func quantized(m, n, k int, add adder) {
	name := fmt.Sprintf("%dx%dx%d", m, n, k)
	w, scales := in(n, k).of(tensor.U8).between(0, 256), in(n, tensor.QuantBlocks(k)).of(tensor.F32).like(0.01, 0, 0.02, 0.007)
	add("matmul by quantized weights/"+name, func(b tensor.Backend, x tensors) { b.MatMulQuantized(x[0], x[1], x[2], x[3]) },
		out(m, n).gapped(), in(m, k).gapped(), w, scales)
	if n > 0 {
		add("gather quantized rows/"+name, func(b tensor.Backend, x tensors) { b.GatherQuantized(x[0], x[1], x[2], x[3]) },
			out(m, k), w, scales, in(m).of(tensor.I32).between(0, n))
	}
}
