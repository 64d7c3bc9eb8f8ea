package xla

import "trireme/tensor"

// BiasGrad reads dy behind a barrier: merged with the sum over rows, what makes dy would be computed with less parallelism, and a
// compiler for GPUs then computes the tanh of GELU apart and writes it to memory in float32. The sum has dy's rounded elements, as on
// the CPU.
func (e *emitter) BiasGrad(dbias, dy *tensor.Tensor, accumulate bool) {
	rows := e.barrier([]value{e.asMatrix(dy)})
	sum := e.sum(e.convert(rows[0], "f32"), 0)
	if accumulate {
		sum = e.binary("add", e.convert(e.flat(e.load(dbias)), "f32"), sum)
	}
	e.store(dbias, sum)
}
