package cpu

import (
	"fmt"
	"testing"
	"time"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// BenchmarkRow compares the products of one row by the matrices of a layer, in turn over 1.2 GB of weights, with a plain
// read of the same bytes (a sum of squares) beside them, and reports both. Scales of 8-bit weights count.
func BenchmarkRow(bench *testing.B) {
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16, tensor.U8} {
		for _, threads := range []int{1, 2} {
			for _, size := range [][2]int{{9728, 896}, {896, 4864}, {896, 896}} {
				bench.Run(fmt.Sprintf("%v %dx%d, %d threads", dt, size[0], size[1], threads), func(bench *testing.B) { benchmarkRow(bench, dt, threads, size[0], size[1]) })
			}
		}
	}
}

func benchmarkRow(bench *testing.B, dt tensor.DType, threads, n, k int) {
	count := 1200 << 20 / (n * k * dt.Size())
	b, err := New(Options{Threads: threads, Reserve: 4 << 30})
	if err != nil {
		bench.Fatal(err)
	}
	defer b.Close()
	w, in := b.New(tensor.Params, dt, count*n, k), tensor.F32
	bytes := float64(n * k * dt.Size())
	var product func(y, x *tensor.Tensor, lo, hi int)
	switch dt {
	case tensor.U8:
		scales := b.New(tensor.Params, tensor.F32, count*n, tensor.QuantBlocks(k))
		b.Fill(scales, 0.5)
		for i := range tensor.Host[uint8](w) {
			tensor.Host[uint8](w)[i] = uint8(i)
		}
		in, bytes = tensor.BF16, bytes+float64(n*tensor.QuantBlocks(k)*4)
		product = func(y, x *tensor.Tensor, lo, hi int) {
			b.MatMulQuantized(y, x, w.RowRange(lo, hi), scales.RowRange(lo, hi))
		}
	default:
		in = dt
		b.Fill(w, 0.5)
		product = func(y, x *tensor.Tensor, lo, hi int) {
			b.MatMul(y, x, w.RowRange(lo, hi), tensor.MatMulOp{TransB: true})
		}
	}
	x, y := b.New(tensor.Activations, in, 1, k), b.New(tensor.Activations, in, 1, n)
	b.Fill(x, 0.25)
	plain := b.New(tensor.Workspace, tensor.F32, int(bytes)/4*count)
	b.Fill(plain, 1)
	all := tensor.Host[float32](plain)
	var products, reads time.Duration
	bench.ResetTimer()
	for i := range bench.N {
		begin := time.Now()
		product(y, x, i%count*n, (i%count+1)*n)
		products += time.Since(begin)
		other := all[i%count*int(bytes)/4:][:int(bytes)/4]
		begin = time.Now()
		b.pool.run(threads, func(part, _ int) { kernel.Squares(other[part*len(other)/threads : (part+1)*len(other)/threads]) })
		reads += time.Since(begin)
	}
	bench.ReportMetric(bytes*float64(bench.N)/products.Seconds()/1e9, "product-GB/s")
	bench.ReportMetric(bytes*float64(bench.N)/reads.Seconds()/1e9, "read-GB/s")
	bench.ReportMetric(0, "ns/op")
}
