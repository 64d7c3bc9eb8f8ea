package cpu

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// BenchmarkRow compares the products of one row by the matrices of a layer, in turn over 1.2 GB of weights, with a plain
// read of the same bytes (a sum of squares) beside them, and reports both.
func BenchmarkRow(bench *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			for _, size := range [][2]int{{9728, 896}, {896, 4864}, {896, 896}} {
				bench.Run(fmt.Sprintf("%v %dx%d, %d threads", dt, size[0], size[1], threads), func(bench *testing.B) {
					n, k := size[0], size[1]
					count := 300 << 20 / (n * k)
					b, err := New(Options{Threads: threads, Reserve: 2 << 30})
					if err != nil {
						bench.Fatal(err)
					}
					defer b.Close()
					w := b.New(tensor.Params, dt, count*n, k)
					b.Fill(w, 0.5)
					x, y := b.New(tensor.Activations, dt, 1, k), b.New(tensor.Activations, dt, 1, n)
					b.Fill(x, 0.25)
					bytes := float64(n*k) * float64(dt.Size())
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
							raw := tensor.HostBytes(other.RowRange(lo, hi))
							kernel.Squares(unsafe.Slice((*float32)(unsafe.Pointer(&raw[0])), len(raw)/4))
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
}
