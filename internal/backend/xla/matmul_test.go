package xla_test

import (
	"bytes"
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

// Products of matrices whose rows are not aligned have the same elements with more columns of 0.
func TestAlignedProducts(t *testing.T) {
	oneGoroutine(t)
	const m, k, n = 19, 21, 23 // of elements; 2 are aligned
	for name, c := range map[string]struct {
		op   tensor.MatMulOp
		a, b []int
	}{
		"x y": {tensor.MatMulOp{}, []int{m, k}, []int{k, n}}, "x y^T": {tensor.MatMulOp{TransB: true}, []int{m, k}, []int{n, k}},
		"x^T y": {tensor.MatMulOp{TransA: true}, []int{k, m}, []int{k, n}}, "+= x y": {tensor.MatMulOp{Accumulate: true}, []int{m, k}, []int{k, n}},
	} {
		var results [2][]byte
		for i, align := range []int{0, 2} {
			b := open(t, 1)[0]
			b.SetAlign(align)
			var x [2]*tensor.Tensor
			for i, shape := range [][]int{c.a, c.b} {
				x[i] = b.New(tensor.Activations, tensor.BF16, shape...)
				text := make([]byte, 0, x[i].Bytes())
				for k := range x[i].Elems() { // small integers: sums are exact
					text = binary.LittleEndian.AppendUint16(text, uint16(math.Float32bits(float32((k*7+i)%9-4))>>16))
				}
				b.Upload(x[i], text)
				t.Cleanup(x[i].Release)
			}
			dst := b.New(tensor.Activations, tensor.F32, m, n)
			b.Fill(dst, 3)
			t.Cleanup(dst.Release)
			if err := b.Compile(false, func() error { b.MatMul(dst, x[0], x[1], c.op); return nil }); err != nil {
				t.Fatal(err)
			}
			results[i] = make([]byte, dst.Bytes())
			b.Download(results[i], dst)
		}
		if !bytes.Equal(results[0], results[1]) {
			t.Errorf("%s differs", name)
		}
	}
	text := xla.Text(t, "cuda", func(b tensor.Backend) {
		x, w := inputs(b, tensor.BF16, []int{64, 96})[0], inputs(b, tensor.BF16, []int{1001, 96})[0]
		y := b.New(tensor.Activations, tensor.F32, 64, 1001)
		b.MatMul(y, x, w, tensor.MatMulOp{TransB: true})
		tensor.DownloadAsync(b, y)
		release(x, w, y)
	})
	if want := "-> tensor<64x1024xf32>"; !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
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
