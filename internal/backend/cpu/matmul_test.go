package cpu

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"trireme/internal/impl"
	"trireme/tensor"
)

// matmulCase is a product of slices of larger tensors.
type matmulCase struct {
	batch, m, n, k int // batch 0: two-dimensional
	op             tensor.MatMulOp
	a, b, c        tensor.DType
}

func (c matmulCase) String() string {
	return fmt.Sprintf("%d of %dx%dx%d %+v %v %v %v", c.batch, c.m, c.n, c.k, c.op, c.a, c.b, c.c)
}

// operand is rows x cols with strided rows, or a contiguous batch.
func (c matmulCase) operand(b *Backend, seed uint64, dt tensor.DType, rows, cols int, trans bool) *tensor.Tensor {
	if trans {
		rows, cols = cols, rows
	}
	if c.batch > 0 {
		return random(b, seed, dt, 1, c.batch, rows, cols)
	}
	if rows*cols == 0 {
		return random(b, seed, dt, 1, rows, cols)
	}
	return random(b, seed, dt, 1, rows, cols+9).Cols(4, 4+cols)
}

func (c matmulCase) run(b *Backend) (dst, x, y *tensor.Tensor) {
	x = c.operand(b, 1, c.a, c.m, c.k, c.op.TransA)
	y = c.operand(b, 2, c.b, c.k, c.n, c.op.TransB)
	dst = c.operand(b, 3, c.c, c.m, c.n, false)
	b.MatMul(dst, x, y, c.op)
	return dst, x, y
}

func TestMatMulBitsDoNotDependOnThreads(t *testing.T) {
	for _, c := range []matmulCase{
		{m: 700, n: 900, k: 600}, {m: 700, n: 530, k: 1100, op: tensor.MatMulOp{TransA: true, Accumulate: true}},
		{m: 1, n: 3000, k: 300, op: tensor.MatMulOp{TransB: true}}, {m: 1300, n: 20, k: 700, b: tensor.BF16, c: tensor.BF16},
		{batch: 5, m: 130, n: 150, k: 64},
		{m: 2, n: 900, k: 700, op: tensor.MatMulOp{TransB: true}}, {m: 50, n: 700, k: 900, op: tensor.MatMulOp{Accumulate: true}},
		{m: 20, n: 300, k: 1100, a: tensor.BF16, b: tensor.BF16, c: tensor.BF16, op: tensor.MatMulOp{TransB: true}}, {batch: 2, m: 30, n: 500, k: 400},
		{m: 130, n: 500, k: 3000, a: tensor.BF16, b: tensor.BF16, op: tensor.MatMulOp{TransB: true}}, {m: 70, n: 80},
	} {
		var first []byte
		for _, threads := range []int{1, 2, 3, 64} {
			b := open(t, threads)
			dst, _, _ := c.run(b)
			flat := b.New(tensor.Workspace, c.c, dst.Rows(), dst.Width())
			b.Copy(flat, dst)
			got := bytes.Clone(tensor.HostBytes(flat))
			if first == nil {
				first = got
			}
			if !bytes.Equal(first, got) {
				t.Errorf("%v: bits of %d threads differ from 1", c, threads)
			}
		}
	}
}

// Highest has the bits of a backend that splits no operand.
func TestMatMulHighest(t *testing.T) {
	for _, m := range []int{1, 70} {
		c := matmulCase{m: m, n: 200, k: 320, op: tensor.MatMulOp{TransB: true}}
		bits := func(parts int, highest bool) []byte {
			b, err := New(Options{Threads: 1, Float32Parts: parts})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			c.op.Highest = highest
			dst, _, _ := c.run(b)
			flat := b.New(tensor.Workspace, c.c, dst.Rows(), dst.Width())
			b.Copy(flat, dst)
			return bytes.Clone(tensor.HostBytes(flat))
		}
		if want := bits(0, false); !bytes.Equal(bits(3, true), want) {
			t.Errorf("%d rows: highest differs from float32", m)
		} else if impl.Tiles() && bytes.Equal(bits(3, false), want) {
			t.Errorf("%d rows: three parts have the bits of float32", m)
		}
	}
}

func TestMatMulMisuse(t *testing.T) {
	b := open(t, 1)
	f := func(shape ...int) *tensor.Tensor { return random(b, 1, tensor.F32, 1, shape...) }
	for name, run := range map[string]func(){
		"inner":  func() { b.MatMul(f(2, 3), f(2, 4), f(5, 3), tensor.MatMulOp{}) },
		"rows":   func() { b.MatMul(f(2, 3), f(4, 2), f(4, 3), tensor.MatMulOp{}) },
		"batch":  func() { b.MatMul(f(2, 2, 3), f(3, 2, 4), f(2, 4, 3), tensor.MatMulOp{}) },
		"ranks":  func() { b.MatMul(f(2, 3), f(2, 4), f(1, 4, 3), tensor.MatMulOp{}) },
		"type":   func() { b.MatMul(f(2, 3), b.New(0, tensor.F64, 2, 4), f(4, 3), tensor.MatMulOp{}) },
		"vector": func() { b.MatMul(f(3), f(4), f(4, 3), tensor.MatMulOp{}) },
	} {
		func() {
			defer func() {
				if e := recover(); e == nil {
					t.Errorf("%s: accepted", name)
				} else if s := fmt.Sprint(e); !bytes.Contains([]byte(s), []byte("matmul")) {
					t.Errorf("%s: %v does not name the operation", name, e)
				}
			}()
			run()
		}()
	}
}

// A product allocates a few words, whatever its size.
func TestMatMulAllocates(t *testing.T) {
	b := open(t, 2)
	for _, n := range []int{100, 600} {
		x, y, z := random(b, 1, tensor.F32, 1, n, n), random(b, 2, tensor.F32, 1, n, n), b.New(0, tensor.F32, n, n)
		run := func() { b.MatMul(z, x, y, tensor.MatMulOp{TransB: true}) }
		run()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const times = 20
		for range times {
			run()
		}
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / times; bytes > 4096 {
			t.Errorf("allocated %d bytes for %d x %d", bytes, n, n)
		}
	}
}
