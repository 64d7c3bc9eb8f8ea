package cpu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"trireme/internal/impl"
	"trireme/tensor"
)

// matmulCase is a product of parts of larger tensors.
type matmulCase struct {
	batch, m, n, k int // batch 0 is two dimensions
	op             tensor.MatMulOp
	a, b, c        tensor.DType
}

func (c matmulCase) String() string {
	return fmt.Sprintf("%d of %dx%dx%d %+v %v %v %v", c.batch, c.m, c.n, c.k, c.op, c.a, c.b, c.c)
}

// operand makes rows x cols with gaps between rows, or a batch without.
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

// check compares with sums in float64, whose terms are exact.
func (c matmulCase) check(t *testing.T, b *Backend) {
	t.Helper()
	dst, x, y := c.run(b)
	old := wide(b, c.operand(b, 3, c.c, c.m, c.n, false))
	got, xs, ys := wide(b, dst), wide(b, x), wide(b, y)
	for p := range max(1, c.batch) {
		for i := range c.m {
			for j := range c.n {
				var sum, size float64
				for k := range c.k {
					u, v := (p*c.m+i)*c.k+k, (p*c.k+k)*c.n+j
					if c.op.TransA {
						u = (p*c.k+k)*c.m + i
					}
					if c.op.TransB {
						v = (p*c.n+j)*c.k + k
					}
					sum += xs[u] * ys[v]
					size += math.Abs(xs[u] * ys[v])
				}
				at := (p*c.m+i)*c.n + j
				if c.op.Accumulate {
					sum += old[at]
				}
				limit := float64(c.k+2) * (size + math.Abs(sum)) * 0x1p-24
				switch c.c {
				case tensor.BF16:
					limit += math.Abs(sum) * 0x1p-8
				case tensor.F16:
					limit += math.Abs(sum)*0x1p-11 + 0x1p-25
				}
				if e := math.Abs(got[at] - sum); !(e <= limit) {
					t.Fatalf("%v: element (%d, %d, %d) is %v, want %v", c, p, i, j, got[at], sum)
				}
			}
		}
	}
}

func matmulCases(n int) []matmulCase {
	r := rand.New(rand.NewPCG(1, 1))
	dts := []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}
	var cases []matmulCase
	for i := range n {
		sizes := []int{1, 2, 7, 33, 64, 100}
		pick := func() int { return sizes[r.IntN(len(sizes))] }
		cases = append(cases, matmulCase{
			batch: i % 3, m: pick(), n: pick(), k: pick(),
			op: tensor.MatMulOp{TransA: r.IntN(2) == 0, TransB: r.IntN(2) == 0, Accumulate: r.IntN(3) == 0},
			a:  dts[r.IntN(3)], b: dts[r.IntN(3)], c: dts[r.IntN(3)],
		})
	}
	return append(cases, matmulCase{m: 0, n: 4, k: 4}, matmulCase{m: 4, n: 0, k: 4}, matmulCase{m: 40, n: 70, k: 0},
		matmulCase{m: 40, n: 70, k: 0, op: tensor.MatMulOp{Accumulate: true, TransA: true, TransB: true}})
}

func TestMatMul(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		for _, threads := range []int{1, 2, 3} {
			b := open(t, threads)
			for _, c := range matmulCases(40) {
				c.check(t, b)
			}
		}
	})
}

func TestMatMulBitsDoNotDependOnThreads(t *testing.T) {
	for _, c := range []matmulCase{
		{m: 700, n: 900, k: 600}, {m: 700, n: 530, k: 1100, op: tensor.MatMulOp{TransA: true, Accumulate: true}},
		{m: 1, n: 3000, k: 300, op: tensor.MatMulOp{TransB: true}}, {m: 1300, n: 20, k: 700, b: tensor.BF16, c: tensor.BF16},
		{batch: 5, m: 130, n: 150, k: 64},
	} {
		var first []byte
		for _, threads := range []int{1, 2, 3} {
			b := open(t, threads)
			dst, _, _ := c.run(b)
			flat := b.New(tensor.Workspace, c.c, dst.Rows(), dst.Width())
			b.Copy(flat, dst)
			got := bytes.Clone(tensor.HostBytes(flat))
			if first == nil {
				first = got
			}
			if !bytes.Equal(first, got) {
				t.Errorf("%v: %d threads give other bits than one", c, threads)
			}
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

// In the steady state a product allocates a few words, whatever its size.
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
			t.Errorf("%d bytes are allocated for %d x %d", bytes, n, n)
		}
	}
}

func TestBias(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			for _, shape := range [][2]int{{1, 1}, {3, 5}, {200, 700}, {40000, 3}, {0, 4}} {
				b := open(t, 3)
				rows, width := shape[0], shape[1]
				x, bias := random(b, 1, dt, 1, rows, width), random(b, 2, dt, 1, width)
				xs, bs := wide(b, x), wide(b, bias)
				want, grad := make([]float64, len(xs)), append([]float64(nil), bs...)
				for i, v := range xs {
					want[i] = v + bs[i%width]
					grad[i%width] += v
				}
				y := b.New(0, dt, rows, width)
				b.AddBias(y, x, bias)
				near(t, "add bias", wide(b, y), want, tolerance(dt))
				b.BiasGrad(bias, x, true)
				near(t, "bias gradient", wide(b, bias), grad, tolerance(dt))
				if rows == 0 {
					b.BiasGrad(bias, x, false)
					near(t, "bias gradient of nothing", wide(b, bias), make([]float64, width), 0)
				}
			}
		}
	})
}
