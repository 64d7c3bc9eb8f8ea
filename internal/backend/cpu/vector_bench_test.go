package cpu

import (
	"runtime"
	"testing"

	"trireme/internal/impl"
	"trireme/tensor"
)

// BenchmarkVector measures operations at sizes of small models. Bytes are the minimal memory
// traffic.
func BenchmarkVector(b *testing.B) {
	const n, d, f, v = 2048, 512, 1408, 32000
	c := open(b, runtime.GOMAXPROCS(0))
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
		b.Run(dt.String(), func(b *testing.B) {
			impl.Each(b, func(b *testing.B) {
				bench := func(name string, elems, reads, writes int, run func()) {
					b.Run(name, func(b *testing.B) {
						b.SetBytes(int64(elems * (reads + writes) * dt.Size()))
						for b.Loop() {
							run()
						}
						b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(elems), "ns/elem")
					})
				}
				x, y, z := random(c, 1, dt, 1, n, d), random(c, 2, dt, 1, n, d), random(c, 3, dt, 1, n, d)
				w, rstd, mean := random(c, 4, dt, 1, d), random(c, 5, tensor.F32, 1, n), random(c, 5, tensor.F32, 1, n)
				gate, up, o, o2, dy := random(c, 5, dt, 1, n, f), random(c, 6, dt, 1, n, f), random(c, 7, dt, 1, n, f), random(c, 8, dt, 1, n, f), random(c, 9, dt, 1, n, f)
				bench("add", n*d, 2, 1, func() { c.Add(x, y, z) })
				bench("rms norm", n*d, 2, 2, func() { c.RMSNorm(x, rstd, y, z, y, w, 1e-5) })
				bench("rms norm backward", n*d, 3, 1, func() { c.RMSNormBackward(x, w, y, z, z, rstd, w, false) })
				head, heads := random(c, 6, dt, 1, 64), random(c, 7, tensor.F32, 1, n, d/64)
				bench("head rms norm", n*d, 1, 1, func() { c.HeadRMSNorm(x, heads, y, head, 64, 1e-5) })
				bench("head rms norm backward", n*d, 2, 1, func() { c.HeadRMSNormBackward(x, head, x, y, heads, head, 64, false) })
				rows, positions := c.New(0, tensor.I64, n), ints(c, make([]int32, n)...)
				for i := range n {
					tensor.Host[int64](rows)[i], tensor.Host[int32](positions)[i] = int64(i), int32(i)
				}
				bench("dropout", n*d, 1, 1, func() { c.Dropout(x, y, tensor.RandKey{}, rows, 0.1) })
				bench("layer norm", n*d, 2, 2, func() { c.LayerNorm(x, mean, rstd, y, z, y, w, w, 1e-5) })
				bench("layer norm backward", n*d, 3, 1, func() { c.LayerNormBackward(x, w, w, y, z, z, mean, rstd, w, false) })
				bench("swiglu", n*f, 2, 1, func() { c.SwiGLU(o, gate, up) })
				bench("swiglu backward", n*f, 3, 2, func() { c.SwiGLUBackward(o, o2, dy, gate, up) })
				bench("gelu tanh", n*f, 1, 1, func() { c.GELU(o, gate, true) })
				bench("gelu erf", n*f, 1, 1, func() { c.GELU(o, gate, false) })
				bench("gelu erf backward", n*f, 2, 1, func() { c.GELUBackward(o, dy, gate, false) })
				cos, sin := random(c, 1, tensor.F32, 1, n, 32), random(c, 2, tensor.F32, 1, n, 32)
				bench("rope", n*d, 1, 1, func() { c.Rope(x, x, cos, sin, positions, 64, false) })
				logits, loss := random(c, 1, dt, 1, 256, v), reals(c, 0)
				labels := ints(c, make([]int32, 256)...)
				bench("cross entropy", 256*v, 1, 1, func() { c.CrossEntropy(loss, logits, labels, true) })
				const p = 8 << 20
				g := random(c, 1, dt, 1, p)
				pp, m, q := random(c, 2, tensor.F32, 1, p), random(c, 3, tensor.F32, 1, p), random(c, 4, tensor.F32, 1, p)
				c.Fill(q, 1)
				hyper, scalars := reals(c, 1e-3, .1, .1, .1), reals(c, 0, 0, 1, 1, 1)
				acc := c.New(0, tensor.I64, tensor.ExactWords)
				bench("exact squares", p, 1, 0, func() { c.ExactSquares(acc, g, nil) })
				bench("convert", p, 1, 1, func() { c.Copy(pp, g) })
				bench("adamw", p, 28/dt.Size(), 0, func() {
					adamw(c, pp, m, q, g, hyper, scalars)
				})
				for _, t := range []*tensor.Tensor{x, y, z, gate, up, o, o2, dy, logits, g, pp, m, q} {
					t.Release()
				}
			})
		})
	}
}
