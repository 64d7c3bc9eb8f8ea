package cpu

import (
	"fmt"
	"testing"
	"time"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// BenchmarkRow compares the products of one row by the matrices of a layer, in turn over 1.2 GB of weights, with a plain
// read of the same bytes (a sum of squares) beside them, and reports both.
func BenchmarkRow(bench *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, size := range [][2]int{{9728, 896}, {896, 4864}, {896, 896}} {
			bench.Run(fmt.Sprintf("float32 %dx%d, %d threads", size[0], size[1], threads), func(bench *testing.B) {
				n, k := size[0], size[1]
				count := 300 << 20 / (n * k)
				b, err := New(Options{Threads: threads, Reserve: 2 << 30})
				if err != nil {
					bench.Fatal(err)
				}
				defer b.Close()
				w := b.New(tensor.Params, tensor.F32, count*n, k)
				b.Fill(w, 0.5)
				x, y := b.New(tensor.Activations, tensor.F32, 1, k), b.New(tensor.Activations, tensor.F32, 1, n)
				b.Fill(x, 0.25)
				bytes := float64(n*k) * 4
				var product, read time.Duration
				bench.ResetTimer()
				for i := range bench.N {
					begin := time.Now()
					b.MatMul(y, x, w.RowRange(i%count*n, (i%count+1)*n), tensor.MatMulOp{TransB: true})
					product += time.Since(begin)
					// other weights, which no cache holds
					other := w.RowRange((i+count/2)%count*n, ((i+count/2)%count+1)*n)
					begin = time.Now()
					b.pool.run(threads, func(part, _ int) {
						lo, hi := part*n/threads, (part+1)*n/threads
						kernel.Squares(tensor.Host[float32](other.RowRange(lo, hi)))
					})
					read += time.Since(begin)
				}
				bench.ReportMetric(bytes*float64(bench.N)/product.Seconds()/1e9, "product-GB/s")
				bench.ReportMetric(bytes*float64(bench.N)/read.Seconds()/1e9, "read-GB/s")
				bench.ReportMetric(0, "ns/op")
			})
		}
	}
}
