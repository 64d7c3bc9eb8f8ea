package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"

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

// cache8 covers keys and values in 8 bits. Rows after the position are NaN. Every block to be quantized has 127, so that
// its codes are exact.
func cache8(add adder) {
	for _, p := range []tensor.AttentionParams{{Heads: 6, KVHeads: 2, E: 20}, {Heads: 4, KVHeads: 4, E: 64, Window: 7}, {Heads: 2, KVHeads: 1, E: 72}} {
		p.Scale = 1 / math.Sqrt(float64(p.E))
		for _, n := range []int{1, 5, 300} {
			last := n / 2
			scales := in(n, 2*p.KVHeads).of(tensor.F32)
			scales.value = func(r *rand.Rand, i int) float64 {
				if i >= (last+1)*2*p.KVHeads {
					return math.NaN()
				}
				return 0.02 * r.Float64()
			}
			add(fmt.Sprintf("attention of one row over 8-bit values/%d of %d %+v", last, n, p), func(b tensor.Backend, x tensors) {
				b.AttentionDecodeQuantized(x[0], x[1], x[2], x[3], x[4], p)
			}, out(1, p.Heads*p.E), in(1, p.Heads*p.E).gapped(), in(n, 2*p.KVHeads*p.E).of(tensor.U8).between(0, 256), scales, in(1).of(tensor.I32).like(float64(last)))
		}
	}
	for _, rows := range []int{1, 3} {
		add(fmt.Sprintf("write rows in 8 bits/%d", rows), func(b tensor.Backend, x tensors) { b.WriteRowsQuantized(x[0], x[1], x[2], x[3]) },
			out(5, 24).of(tensor.U8).like(7), out(5, 3).of(tensor.F32).like(0.5), in(rows, 24).gapped().like(127, -3, 0, 64, -127, 1), in(1).of(tensor.I32).like(2))
	}
}
