package xla

import "trireme/tensor"

// BiasGrad sums behind a barrier. Where a compiler for GPUs merges the sum over rows with the gradient of GELU, it computes the tanh in
// an operation of its own, which writes it to memory in float32. The sum has dy's rounded elements, as on the CPU.
func (e *emitter) BiasGrad(dbias, dy *tensor.Tensor, accumulate bool) {
	e.Barrier(dy)
	e.Ops.BiasGrad(dbias, dy, accumulate)
}
