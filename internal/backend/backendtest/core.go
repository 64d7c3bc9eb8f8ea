package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"trireme/tensor"
)

// coreCalls are the element-wise operations and reductions of tensor.Core.
func coreCalls(at func(string) string, n, d int, add adder) {
	// A range in which every function is defined and none is steep.
	mild := func(a arg) arg { return a.like(0.3, 1.7, 0.9, 2.6, 1.1) }
	for op := tensor.Abs; op <= tensor.Floor; op++ {
		add(at(fmt.Sprint("unary ", op)), func(b tensor.Backend, x tensors) { b.Unary(x[0], x[1], op) }, out(n, d).gapped(), mild(in(n, d)).gapped())
	}
	add(at("unary in place"), func(b tensor.Backend, x tensors) { b.Unary(x[0], x[0], tensor.Abs) }, out(n, d))
	add(at("logistic of large numbers"), func(b tensor.Backend, x tensors) { b.Unary(x[0], x[1], tensor.Logistic) }, out(n, d), in(n, d).like(200, -200, 0, math.Inf(1), math.Inf(-1)))
	f64 := func(a arg) arg { return a.of(tensor.F64) }
	add(at("unary in float64"), func(b tensor.Backend, x tensors) { b.Unary(x[0], x[1], tensor.Log1p) }, f64(out(n, d)), mild(in(n, d)))

	u8 := out(n, d).of(tensor.U8).like(0)
	for op := tensor.Add; op <= tensor.Ge; op++ {
		binary := func(b tensor.Backend, x tensors) { b.Binary(x[0], x[1], x[2], op) }
		named := func(what string) string { return at(fmt.Sprint("binary ", op, what)) }
		first, second := in(n, d).like(1, 2, -3, 4, 0.5), in(n, d).like(1, -2, 3, 0.5)
		switch {
		case op.Compares():
			add(named(""), binary, u8, first, second)
		case op < tensor.Rem:
			add(named(""), binary, out(n, d).gapped(), first.gapped(), second.gapped())
			add(named(" in float64"), binary, f64(out(n, d)), f64(first), second)
			add(named(" onto the first"), func(b tensor.Backend, x tensors) { b.Binary(x[0], x[0], x[1], op) }, out(n, d), second)
		}
		for _, dt := range []tensor.DType{tensor.I32, tensor.I64} {
			to := out(n, d).of(dt).like(0)
			if op.Compares() {
				to = u8
			}
			add(named(fmt.Sprint(" of ", dt)), binary, to, in(n, d).of(dt).like(5, -9, 0, 1<<30, -1<<31), in(n, d).of(dt).like(3, 1, 30, 7))
		}
	}
	row, column, one := in(d), in(n, 1), in(1).like(0.4)
	sub := func(b tensor.Backend, x tensors) { b.Binary(x[0], x[1], x[2], tensor.Sub) }
	for name, with := range map[string]arg{"a row": row, "a column": column, "one": one} {
		add(at("binary with "+name), sub, out(n, d), in(n, d), with)
		add(at("binary of gaps with "+name), sub, out(n, d).gapped(), in(n, d).gapped(), with)
	}
	add(at("binary of a column and a row"), sub, out(n, d), column, row)
	add(at("binary of a column and one"), sub, out(n, 1), column, one)
	cond := in(n, d).of(tensor.U8).between(0, 2)
	sel := func(b tensor.Backend, x tensors) { b.Select(x[0], x[1], x[2], x[3]) }
	add(at("select"), sel, out(n, d).gapped(), cond, in(n, d), in(n, d).gapped())
	add(at("select by column"), sel, out(n, d), in(n, 1).of(tensor.U8).between(0, 2), row, one)
	for _, dt := range []tensor.DType{tensor.F64, tensor.I32, tensor.I64} {
		add(at(fmt.Sprint("select of ", dt)), sel, out(n, d).of(dt).like(0), cond, in(n, d).of(dt).between(-9, 9), in(n, d).of(dt).between(-9, 9))
		for _, dim := range []int{0, 1} {
			add(at(fmt.Sprintf("iota of %v along %d", dt, dim)), func(b tensor.Backend, x tensors) { b.Iota(x[0], dim) }, out(n, d).of(dt).gapped())
		}
	}
	for dim, to := range []arg{out(d), out(n)} {
		for _, op := range []tensor.BinaryOp{tensor.Add, tensor.Max, tensor.Min} {
			if n == 0 && op != tensor.Add {
				continue
			}
			for _, acc := range []tensor.DType{tensor.F32, tensor.F64} {
				add(at(fmt.Sprintf("reduce %d by %v in %v", dim, op, acc)), func(b tensor.Backend, x tensors) { b.Reduce(x[0], x[1], dim, op, acc) }, to, in(n, d).gapped())
			}
			add(at(fmt.Sprintf("reduce %d of integers by %v", dim, op)), func(b tensor.Backend, x tensors) { b.Reduce(x[0], x[1], dim, op, tensor.I64) },
				to.of(tensor.I64).like(0), in(n, d).of(tensor.I64).between(-1<<40, 1<<40))
		}
	}
	for _, s := range [][4]int{{1, n, d, 1}, {2, n, d, 3}, {3, d, n, 2}} {
		add(at(fmt.Sprint("swap ", s)), func(b tensor.Backend, x tensors) { b.Swap(x[0], x[1]) }, out(s[0], s[2], s[1], s[3]).of(tensor.F32), in(s[:]...).of(tensor.F32))
	}
	numbers := in(n, d).of(tensor.I64)
	numbers.value = func(_ *rand.Rand, i int) float64 { return [4]float64{3, 1 << 40, 0, 1<<34 - 1}[i/10%4] + float64(i%10) }
	add(at("words"), func(b tensor.Backend, x tensors) {
		b.Words(x[0], x[1], tensor.RandKey{Seed: 7<<33 + 5, Stream: 9<<40 + 1})
	}, out(n, d).of(tensor.I64).like(0), numbers)
}

// conversions copies between all pairs of types.
func conversions(add adder) {
	all := []tensor.DType{tensor.F32, tensor.BF16, tensor.F16, tensor.F64, tensor.I32, tensor.I64, tensor.U8}
	for _, to := range all {
		for _, from := range all {
			add(fmt.Sprintf("copy/%v to %v", from, to), func(b tensor.Backend, x tensors) { b.Copy(x[0], x[1]) },
				out(3, 41).of(to).like(0).gapped(), in(3, 41).of(from).like(1, 2, 0, 31, 100).gapped())
		}
	}
	add("copy/floats to integers", func(b tensor.Backend, x tensors) { b.Copy(x[0], x[1]); b.Copy(x[2], x[3]) },
		out(5).of(tensor.I32).like(0), in(5).of(tensor.F32).like(1.9, -1.9, 0.5, 1e6), out(5).of(tensor.I64).like(0), in(5).of(tensor.F64).like(1e15+0.5, -1e15-0.5))
}
