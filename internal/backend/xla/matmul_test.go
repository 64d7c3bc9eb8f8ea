package xla_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"trireme/internal/backend/xla"
	"trireme/tensor"
)

// Products of an operand that was written in columns have the same elements in parts.
func TestProductsOfColumns(t *testing.T) {
	oneGoroutine(t)
	const n, f, k = 5, 4, 3
	products := map[string]func(b tensor.Backend, x, w, v, dst *tensor.Tensor){
		"x w": func(b tensor.Backend, x, w, v, dst *tensor.Tensor) {
			b.MatMul(dst.Flat(0, n*k).Reshape(n, k), x, w, tensor.MatMulOp{})
		},
		"x w^T": func(b tensor.Backend, x, w, v, dst *tensor.Tensor) {
			b.MatMul(dst.Flat(0, n*k).Reshape(n, k), x, w.Reshape(k, 2*f), tensor.MatMulOp{TransB: true})
		},
		"x^T v": func(b tensor.Backend, x, w, v, dst *tensor.Tensor) {
			b.MatMul(dst.Flat(0, 2*f*k).Reshape(2*f, k), x, v, tensor.MatMulOp{TransA: true})
		},
		"+= x^T v": func(b tensor.Backend, x, w, v, dst *tensor.Tensor) {
			b.MatMul(dst.Flat(0, 2*f*k).Reshape(2*f, k), x, v, tensor.MatMulOp{TransA: true, Accumulate: true})
		},
	}
	for name, product := range products {
		var results [2][]float32
		for i, columns := range []int{0, f} {
			b := open(t, 1)[0]
			b.SetColumns(columns)
			results[i] = columnsProduct(t, b, n, f, k, product)
		}
		for i, want := range results[0] {
			if got := results[1][i]; math.Abs(float64(got-want)) > 1e-5 {
				t.Errorf("%s: element %d is %v in parts, %v joined", name, i, got, want)
			}
		}
	}
	text := xla.Text(t, "cuda", func(b tensor.Backend) {
		halves := inputs(b, tensor.BF16, []int{64, 2048}, []int{64, 2048})
		w, x, y := inputs(b, tensor.BF16, []int{4096, 32})[0], b.New(tensor.Activations, tensor.BF16, 64, 4096), b.New(tensor.Activations, tensor.BF16, 64, 32)
		for i, h := range halves {
			b.Copy(x.Cols(i*2048, (i+1)*2048), h)
		}
		b.MatMul(y, x, w, tensor.MatMulOp{})
		tensor.DownloadAsync(b, y)
		release(halves[0], halves[1], w, x, y)
	})
	if n := strings.Count(text, "dot_general\""); n != 2 {
		t.Errorf("%d products in\n%s", n, text)
	}
}

// columnsProduct multiplies a matrix [n 2f] whose halves are written apart.
func columnsProduct(t *testing.T, b *xla.Backend, n, f, k int, product func(b tensor.Backend, x, w, v, dst *tensor.Tensor)) (out []float32) {
	t.Helper()
	upload := func(shape ...int) *tensor.Tensor {
		x := b.New(tensor.Activations, tensor.F32, shape...)
		text := make([]byte, 0, x.Bytes())
		for i := range x.Elems() {
			text = binary.LittleEndian.AppendUint32(text, math.Float32bits(float32(math.Sin(float64(i+len(shape)*x.Elems())))))
		}
		b.Upload(x, text)
		t.Cleanup(x.Release)
		return x
	}
	p, q, w, v, dst := upload(n, f), upload(1, n, f).Reshape(n, f), upload(2*f, k), upload(n, k), upload(2*f*k)
	if err := b.Compile(false, func() error {
		x := b.New(tensor.Activations, tensor.F32, n, 2*f)
		defer x.Release()
		b.Add(x.Cols(0, f), p, q)
		b.Copy(x.Cols(f, 2*f), q)
		product(b, x, w, v, dst)
		return nil
	}); err != nil {
		t.Fatal(fmt.Errorf("%d, %d, %d: %w", n, f, k, err))
	}
	text := make([]byte, dst.Bytes())
	b.Download(text, dst)
	for i := 0; i < len(text); i += 4 {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(text[i:])))
	}
	return out
}
