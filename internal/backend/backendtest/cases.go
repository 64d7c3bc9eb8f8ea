package backendtest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"trireme/internal/kernel"
	"trireme/tensor"
)

type tensors = []*tensor.Tensor

// cases lists the suite's calls.
func cases() (cs []call) {
	more := false
	add := func(name string, run func(b tensor.Backend, x tensors), args ...arg) {
		c := call{name: name, args: args, run: run, plain: true, more: more}
		for _, a := range args {
			c.plain = c.plain && !a.float
			c.large = c.large || tensor.Shape(a.shape).Elems() > 1<<15
		}
		cs = append(cs, c)
	}
	for _, size := range [][2]int{{0, 5}, {1, 1}, {1, 33}, {3, 7}, {5, 64}, {70, 40}, {9, 257}, {33, 1000}} {
		n, d := size[0], size[1]
		more = d != 5 && d != 7 && d != 257
		at := func(op string) string { return fmt.Sprintf("%s/%dx%d", op, n, d) }
		coreCalls(at, n, d, add)
		pointwise(at, n, d, add)
		norms(at, n, d, add)
		headNorms(at, n, d, add)
		lookups(at, n, d, add)
	}
	for _, size := range [][3]int{{1, 1, 1}, {1, 33, 7}, {17, 1, 5}, {3, 5, 1}, {64, 64, 64}, {70, 40, 96}, {1, 65, 200}, {2, 70, 129}, {6, 300, 30}, {0, 4, 4}, {4, 0, 4}} {
		more = size != [3]int{17, 1, 5} && size != [3]int{70, 40, 96} && size != [3]int{4, 0, 4}
		products(size[0], size[1], size[2], add)
		quantized(size[0], size[1], size[2], add)
	}
	more = false
	conversions(add)
	attentions(add)
	decodes(add)
	cache8(add)
	steps(add)
	return fewer(cs)
}

// fewer marks all but a few calls of long lists as more.
func fewer(cs []call) []call {
	seen := map[string]int{}
	for i, c := range cs {
		name, every := c.name[:strings.LastIndex("/"+c.name, "/")], 1
		switch {
		case strings.HasPrefix(c.name, "loss scale/"):
			every = 21
		case strings.HasPrefix(c.name, "step scalars/"):
			every = 4
		case strings.HasPrefix(c.name, "update/"):
			every = 3
		case strings.HasPrefix(c.name, "attention of one row/"):
			every = 3
		}
		cs[i].more = c.more || seen[name]%every != 0
		seen[name]++
	}
	return cs
}

type adder = func(name string, run func(b tensor.Backend, x tensors), args ...arg)

func pointwise(at func(string) string, n, d int, add adder) {
	add(at("add"), func(b tensor.Backend, x tensors) { b.Add(x[0], x[1], x[2]) }, out(n, d), in(n, d), in(n, d))
	add(at("add onto the first"), func(b tensor.Backend, x tensors) { b.Add(x[0], x[0], x[1]) }, out(n, d), in(n, d))
	add(at("add onto the second"), func(b tensor.Backend, x tensors) { b.Add(x[0], x[1], x[0]) }, out(n, d), in(n, d))
	add(at("add scaled"), func(b tensor.Backend, x tensors) { b.AddScaled(x[0], x[1], 1); b.AddScaled(x[0], x[1], -0.37) }, out(n, d), in(n, d))
	add(at("scale by"), func(b tensor.Backend, x tensors) { b.ScaleBy(x[0], x[1], x[2]) }, out(n, d), in(n, d), in(1).of(tensor.F64).like(0.125))
	add(at("scale by in place"), func(b tensor.Backend, x tensors) { b.ScaleBy(x[0], x[0], x[1]) }, out(n, d), in(1).of(tensor.F64).like(0.3))
	add(at("add bias"), func(b tensor.Backend, x tensors) { b.AddBias(x[0], x[1], x[2]) }, out(n, d), in(n, d), in(d))
	add(at("add bias in place"), func(b tensor.Backend, x tensors) { b.AddBias(x[0], x[0], x[1]) }, out(n, d), in(d))
	add(at("add bias to a part"), func(b tensor.Backend, x tensors) { b.AddBias(x[0], x[0], x[1]) }, out(n, d).gapped(), in(d))
	for _, acc := range []bool{false, true} {
		add(at(fmt.Sprint("bias gradient ", acc)), func(b tensor.Backend, x tensors) { b.BiasGrad(x[0], x[1], acc) }, out(d), in(n, d).gapped())
	}
	add(at("swiglu"), func(b tensor.Backend, x tensors) { b.SwiGLU(x[0], x[1], x[2]) }, out(n, d), in(n, d).gapped(), in(n, d).gapped())
	add(at("swiglu backward"), func(b tensor.Backend, x tensors) { b.SwiGLUBackward(x[0], x[1], x[2], x[3], x[4]) },
		out(n, d).gapped(), out(n, d).gapped(), in(n, d), in(n, d).gapped(), in(n, d).gapped())
	add(at("swiglu backward in place"), func(b tensor.Backend, x tensors) { b.SwiGLUBackward(x[0], x[1], x[2], x[0], x[1]) },
		out(n, d).gapped(), out(n, d).gapped(), in(n, d))
	for _, tanh := range []bool{false, true} {
		add(at(fmt.Sprint("gelu ", tanh)), func(b tensor.Backend, x tensors) { b.GELU(x[0], x[1], tanh) }, out(n, d), in(n, d))
		add(at(fmt.Sprint("gelu backward ", tanh)), func(b tensor.Backend, x tensors) { b.GELUBackward(x[0], x[1], x[2], tanh) }, out(n, d), in(n, d), in(n, d))
		large := in(n, d).of(tensor.F32).like(1e20, -1e20, 12, -12, 0)
		add(at(fmt.Sprint("gelu of large numbers ", tanh)), func(b tensor.Backend, x tensors) {
			b.GELU(x[0], x[2], tanh)
			b.GELUBackward(x[1], x[3], x[2], tanh)
		}, out(n, d).of(tensor.F32), out(n, d).of(tensor.F32), large, in(n, d).of(tensor.F32))
		add(at(fmt.Sprint("gelu backward in place ", tanh)), func(b tensor.Backend, x tensors) { b.GELUBackward(x[0], x[0], x[1], tanh) }, out(n, d), in(n, d))
	}
	add(at("tanh"), func(b tensor.Backend, x tensors) { b.Tanh(x[0], x[1]) }, out(n, d), in(n, d))
	add(at("tanh in place"), func(b tensor.Backend, x tensors) { b.Tanh(x[0], x[0]) }, out(n, d))
	add(at("tanh backward"), func(b tensor.Backend, x tensors) { b.TanhBackward(x[0], x[1], x[2]) }, out(n, d), in(n, d), in(n, d))
	add(at("tanh backward in place"), func(b tensor.Backend, x tensors) { b.TanhBackward(x[0], x[0], x[1]) }, out(n, d), in(n, d))
	key := tensor.RandKey{Seed: 7<<33 + 5, Stream: 9<<40 + 1}
	from := func(first float64) arg { return rowIDs(n, first) }
	for _, first := range []float64{0, 3, 1<<34 - 1, 1 << 40} {
		add(at(fmt.Sprint("dropout from ", first)), func(b tensor.Backend, x tensors) { b.Dropout(x[0], x[1], key, x[2], 0.3) }, out(n, d), in(n, d), from(first))
	}
	add(at("dropout of rows in any order"), func(b tensor.Backend, x tensors) { b.Dropout(x[0], x[1], key, x[2], 0.3) }, out(n, d), in(n, d), in(n).of(tensor.I64).like(7, 1<<35, 3, 3, 0))
	// The bound is element 0's word, which is then not dropped.
	bound := float64(kernel.Philox([4]uint32{0, 0, uint32(key.Stream), uint32(key.Stream >> 32)}, [2]uint32{uint32(key.Seed), uint32(key.Seed >> 32)})[0])
	add(at("dropout by a word"), func(b tensor.Backend, x tensors) { b.Dropout(x[0], x[1], key, x[2], bound*0x1p-32) }, out(n, d), in(n, d), from(0))
	add(at("dropout with gaps"), func(b tensor.Backend, x tensors) { b.Dropout(x[0], x[1], key, x[2], 0.1) }, out(n, d).gapped(), in(n, d).gapped(), from(2))
	add(at("dropout in place"), func(b tensor.Backend, x tensors) {
		b.Dropout(x[0], x[0], key, x[1], 0.9)
		b.Dropout(x[0], x[0], key, x[1], 0)
	}, out(n, d), from(2))
	for _, v := range []float64{0, 1.5} {
		add(at(fmt.Sprint("fill ", v)), func(b tensor.Backend, x tensors) { b.Fill(x[0], v); b.Fill(x[1], v) }, out(n, d), out(n, d).gapped())
		for _, dt := range []tensor.DType{tensor.F64, tensor.I32, tensor.I64} {
			add(at(fmt.Sprint("fill ", dt, v)), func(b tensor.Backend, x tensors) { b.Fill(x[0], 2*v) }, out(n, d).of(dt).between(0, 9))
		}
	}
	const heads, e = 3, 6
	table := in(7, e/2)
	for _, inverse := range []bool{false, true} {
		add(at(fmt.Sprint("rope ", inverse)), func(b tensor.Backend, x tensors) { b.Rope(x[0], x[1], x[2], x[3], x[4], e, inverse) },
			out(n, heads*e), in(n, heads*e).gapped(), table, table, in(n).of(tensor.I32).like(0, 1, 2, 3, 4))
	}
	add(at("rope in place"), func(b tensor.Backend, x tensors) { b.Rope(x[0], x[0], x[1], x[2], x[3], e, false) },
		out(n, heads*e).gapped(), table, table, in(n).of(tensor.I32).between(0, 7))
}

func norms(at func(string) string, n, d int, add adder) {
	const eps = 1e-5
	stat := func() arg { return out(n).of(tensor.F32) }
	gain := in(d)
	add(at("rms norm"), func(b tensor.Backend, x tensors) { b.RMSNorm(x[0], x[1], nil, x[2], nil, x[3], eps) }, out(n, d), stat(), in(n, d), gain)
	add(at("rms norm of a sum"), func(b tensor.Backend, x tensors) { b.RMSNorm(x[0], x[1], x[2], x[3], x[4], x[5], eps) }, out(n, d), stat(), out(n, d), in(n, d), in(n, d), gain)
	add(at("recompute rms norm"), func(b tensor.Backend, x tensors) {
		b.RMSNorm(x[0], x[1], nil, x[2], nil, x[3], eps)
		b.RecomputeRMSNorm(x[4], x[2], x[1], x[3])
	}, out(n, d), stat(), in(n, d), gain, out(n, d))
	add(at("layer norm"), func(b tensor.Backend, x tensors) { b.LayerNorm(x[0], x[1], x[2], nil, x[3], nil, x[4], x[5], eps) }, out(n, d), stat(), stat(), in(n, d), gain, gain)
	add(at("layer norm of a sum"), func(b tensor.Backend, x tensors) { b.LayerNorm(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], eps) },
		out(n, d), stat(), stat(), out(n, d), in(n, d), in(n, d), gain, gain)
	add(at("recompute layer norm"), func(b tensor.Backend, x tensors) {
		b.LayerNorm(x[0], x[1], x[2], nil, x[3], nil, x[4], x[5], eps)
		b.RecomputeLayerNorm(x[6], x[3], x[1], x[2], x[4], x[5])
	}, out(n, d), stat(), stat(), in(n, d), gain, gain, out(n, d))
	rstd, mean := in(n).of(tensor.F32).like(0.7, 1.1, 0.9), in(n).of(tensor.F32).like(0.1, -0.2)
	for _, acc := range []bool{false, true} {
		add(at(fmt.Sprint("rms norm backward ", acc)), func(b tensor.Backend, x tensors) { b.RMSNormBackward(x[0], x[1], x[2], x[3], x[4], x[5], x[6], acc) },
			out(n, d), out(d), in(n, d), in(n, d), in(n, d), rstd, gain)
		add(at(fmt.Sprint("layer norm backward ", acc)), func(b tensor.Backend, x tensors) {
			b.LayerNormBackward(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], acc)
		},
			out(n, d), out(d), out(d), in(n, d), in(n, d), in(n, d), mean, rstd, gain)
	}
	add(at("rms norm backward onto dy"), func(b tensor.Backend, x tensors) { b.RMSNormBackward(x[0], nil, x[0], nil, x[1], x[2], x[3], false) }, out(n, d), in(n, d), rstd, gain)
	add(at("rms norm backward onto dres"), func(b tensor.Backend, x tensors) { b.RMSNormBackward(x[0], x[1], x[2], x[0], x[3], x[4], x[5], true) },
		out(n, d), out(d), in(n, d), in(n, d), rstd, gain)
	add(at("layer norm backward onto dy"), func(b tensor.Backend, x tensors) {
		b.LayerNormBackward(x[0], nil, nil, x[0], nil, x[1], x[2], x[3], x[4], false)
	}, out(n, d), in(n, d), mean, rstd, gain)
	add(at("layer norm backward onto dres"), func(b tensor.Backend, x tensors) {
		b.LayerNormBackward(x[0], x[1], nil, x[2], x[0], x[3], x[4], x[5], x[6], true)
	}, out(n, d), out(d), in(n, d), in(n, d), mean, rstd, gain)
}

func headNorms(at func(string) string, n, d int, add adder) {
	const eps = 1e-5
	for _, heads := range []int{1, 3} {
		named := func(op string) string { return at(fmt.Sprint(op, " of ", heads)) }
		stat, gain := func() arg { return out(n, heads).of(tensor.F32) }, in(d)
		rstd := in(n, heads).of(tensor.F32).like(0.7, 1.1, 0.9)
		add(named("head rms norm"), func(b tensor.Backend, x tensors) { b.HeadRMSNorm(x[0], x[1], x[2], x[3], d, eps) },
			out(n, heads*d).gapped(), stat(), in(n, heads*d).gapped(), gain)
		add(named("head rms norm in place"), func(b tensor.Backend, x tensors) { b.HeadRMSNorm(x[0], x[1], x[0], x[2], d, eps) },
			out(n, heads*d).gapped(), stat(), gain)
		for _, acc := range []bool{false, true} {
			add(named(fmt.Sprint("head rms norm backward ", acc)), func(b tensor.Backend, x tensors) { b.HeadRMSNormBackward(x[0], x[1], x[2], x[3], x[4], x[5], d, acc) },
				out(n, heads*d).gapped(), out(d), in(n, heads*d).gapped(), in(n, heads*d).gapped(), rstd, gain)
		}
		add(named("head rms norm backward onto dy"), func(b tensor.Backend, x tensors) { b.HeadRMSNormBackward(x[0], nil, x[0], x[1], x[2], x[3], d, false) },
			out(n, heads*d).gapped(), in(n, heads*d), rstd, gain)
	}
}

func lookups(at func(string) string, n, d int, add adder) {
	const v = 11
	ids := in(n).of(tensor.I32).between(0, v)
	add(at("gather rows"), func(b tensor.Backend, x tensors) { b.GatherRows(x[0], x[1], x[2]) }, out(n, d), in(v, d), ids)
	for _, first := range slices.Compact([]int{0, n / 2, 2}) {
		add(at(fmt.Sprint("write rows from ", first)), func(b tensor.Backend, x tensors) { b.WriteRows(x[0], x[1], x[2]) },
			out(n+2, d).gapped(), in(n-n/2, d).gapped(), in(1).of(tensor.I32).like(float64(first)))
	}
	for _, acc := range []bool{false, true} {
		for _, padding := range []int{tensor.NoPadding, 0, 4} {
			add(at(fmt.Sprintf("scatter add %v padding %d", acc, padding)), func(b tensor.Backend, x tensors) {
				b.ScatterAdd(x[0], x[1], x[2], padding, acc)
			}, out(v, d), in(n, d), ids)
		}
	}
	for name, pos := range map[string]func(i int) int{"others": func(i int) int { return 2 * i }, "the last": func(i int) int { return n/2 + i }, "the first": func(i int) int { return i }, "others, the last to none": func(i int) int { return 2 * i * max(0, 1-4*i/(n+1)) }} {
		rows := in((n + 1) / 2).of(tensor.I32)
		rows.value = func(_ *rand.Rand, i int) float64 { return float64(pos(i)) }
		add(at("scatter rows to "+name), func(b tensor.Backend, x tensors) { b.ScatterRows(x[0], x[1]) }, out(n, d).gapped(), rows)
	}
	labels := in(n).of(tensor.I32).between(-2, d)
	drawn := labels.value
	labels.value = func(r *rand.Rand, i int) float64 {
		if i < 2 { // first and last class
			return float64(i * (d - 1))
		}
		return drawn(r, i)
	}
	loss := out(1).of(tensor.F64).like(3)
	add(at("cross entropy"), func(b tensor.Backend, x tensors) { b.CrossEntropy(x[0], x[1], x[2], true) }, loss, out(n, d), labels)
	add(at("cross entropy, the loss alone"), func(b tensor.Backend, x tensors) { b.CrossEntropy(x[0], x[1], x[2], false) }, loss, out(n, d).unread(), labels)
	ties := in(n, d).like(0.5, 2, -1, 2, 1, 0.25, 2)
	add(at("count classes"), func(b tensor.Backend, x tensors) { b.CountClasses(x[0], x[1], x[2]) }, out(3*d).of(tensor.F64).between(0, 5), ties, labels)
}

func products(m, n, k int, add adder) {
	for form := range 8 {
		op := tensor.MatMulOp{TransA: form&1 != 0, TransB: form&2 != 0, Accumulate: form&4 != 0}
		if op.TransA && op.TransB {
			continue
		}
		a, b := [2]int{m, k}, [2]int{k, n}
		if op.TransA {
			a = [2]int{k, m}
		}
		if op.TransB {
			b = [2]int{n, k}
		}
		run := func(be tensor.Backend, x tensors) { be.MatMul(x[0], x[1], x[2], op) }
		name := fmt.Sprintf("%dx%dx%d %+v", m, n, k, op)
		if m*n*k < 1<<16 {
			add("matmul/"+name, run, out(m, n), in(a[0], a[1]), in(b[0], b[1]))
		}
		add("matmul with gaps/"+name, run, out(m, n).gapped(), in(a[0], a[1]).gapped(), in(b[0], b[1]).gapped())
		for _, batch := range []int{1, 3} {
			if m*n*k < 1<<16 {
				add(fmt.Sprint("matmul of ", batch, "/", name), run, out(batch, m, n), in(batch, a[0], a[1]), in(batch, b[0], b[1]))
			}
		}
	}
}

// rowIDs are n row ids from first on.
func rowIDs(n int, first float64) arg {
	a := in(n).of(tensor.I64)
	a.value = func(_ *rand.Rand, i int) float64 { return first + float64(i) }
	return a
}

// attentions cover sequences with the docs bounds, followed by rest padding rows.
func attentions(add adder) {
	for _, c := range []struct {
		starts []float64
		rest   int
		tensor.AttentionParams
	}{
		{[]float64{0, 1}, 0, tensor.AttentionParams{Heads: 1, KVHeads: 1, E: 2, Causal: true}},
		{[]float64{0, 7, 14}, 0, tensor.AttentionParams{Heads: 4, KVHeads: 2, E: 6, Causal: true}},
		{[]float64{0, 9, 18}, 0, tensor.AttentionParams{Heads: 3, KVHeads: 3, E: 5}},
		{[]float64{0, 70}, 0, tensor.AttentionParams{Heads: 4, KVHeads: 1, E: 16, Causal: true, Window: 13}},
		{[]float64{0, 33, 66}, 0, tensor.AttentionParams{Heads: 2, KVHeads: 1, E: 32, Window: 5}},
		{[]float64{0, 97}, 0, tensor.AttentionParams{Heads: 2, KVHeads: 1, E: 64, Causal: true}},
		{[]float64{0}, 0, tensor.AttentionParams{Heads: 2, KVHeads: 1, E: 4, Causal: true}},
		{[]float64{0, 7, 14}, 0, tensor.AttentionParams{Heads: 4, KVHeads: 2, E: 6, Causal: true, Dropout: 0.3}},
		{[]float64{0, 70}, 0, tensor.AttentionParams{Heads: 2, KVHeads: 1, E: 16, Dropout: 0.1}},
		{[]float64{0, 3, 3, 80, 81, 90}, 0, tensor.AttentionParams{Heads: 4, KVHeads: 2, E: 16, Causal: true}},
		{[]float64{0, 5, 75, 75}, 6, tensor.AttentionParams{Heads: 2, KVHeads: 1, E: 16}},
		{[]float64{0, 2, 40, 57}, 3, tensor.AttentionParams{Heads: 2, KVHeads: 2, E: 8, Causal: true, Window: 9, Dropout: 0.2}},
		{[]float64{0, 0}, 4, tensor.AttentionParams{Heads: 2, KVHeads: 1, E: 4, Causal: true}},
	} {
		p := c.AttentionParams
		p.Scale = 1 / math.Sqrt(float64(p.E))
		for i, start := range c.starts[1:] {
			p.MaxSeqLen = max(p.MaxSeqLen, int(start-c.starts[i]))
		}
		n := int(c.starts[len(c.starts)-1]) + c.rest
		p.Key = tensor.RandKey{Seed: 3 << 40, Stream: 5<<34 + 1}
		starts, rows := in(len(c.starts)).of(tensor.I32).like(c.starts...), rowIDs(n, 1<<33+5)
		q, kv := in(n, p.Heads*p.E).gapped(), in(n, p.KVHeads*p.E).gapped()
		o, lse := out(n, p.Heads*p.E).gapped(), out(p.Heads, n).of(tensor.F32)
		for i := range 4 {
			docs, seqLen := i%2 == 1, i/2*p.MaxSeqLen
			if i >= 2 && (n == 0 || (len(c.starts)-1)*p.MaxSeqLen != n) {
				continue // sequences differ in length, or there is padding
			}
			name := fmt.Sprintf("%v and %d, %d heads by %d of %d, causal %t window %d dropout %v docs %t length %d", c.starts, c.rest, p.Heads, p.KVHeads, p.E, p.Causal, p.Window, p.Dropout, docs, seqLen)
			doc := in(n).of(tensor.I32).like(0, 0, 0, 1, 1, 2)
			docsOrNil := func(x *tensor.Tensor) *tensor.Tensor {
				if docs {
					return x
				}
				return nil
			}
			with := func(x tensors) tensor.AttentionParams {
				p := p
				p.Rows, p.Starts, p.SeqLen = x[6], x[7], seqLen
				return p
			}
			add("attention/"+name, func(b tensor.Backend, x tensors) {
				b.Attention(x[0], x[1], x[2], x[3], x[4], docsOrNil(x[5]), with(x))
			}, o, lse, q, kv, kv, doc, rows, starts)
			dq, dkv := q, kv
			dq.writes, dkv.writes = true, true
			add("attention backward/"+name, func(b tensor.Backend, x tensors) {
				b.Attention(x[0], x[1], x[2], x[3], x[4], docsOrNil(x[5]), with(x))
				b.AttentionBackward(x[8], x[9], x[10], x[11], x[0], x[1], x[2], x[3], x[4], docsOrNil(x[5]), with(x))
				// o is not rounded: the gradient of a row that attends to one row is a difference
				// of equal numbers.
			}, o.of(tensor.F32), lse, q, kv, kv, doc, rows, starts, dq, dkv, dkv, q)
		}
	}
}

// decodes are attention of one row. Rows after its position are NaN.
func decodes(add adder) {
	for _, p := range []tensor.AttentionParams{
		{Heads: 1, KVHeads: 1, E: 2},
		{Heads: 6, KVHeads: 2, E: 20},
		{Heads: 4, KVHeads: 4, E: 16, Window: 7},
		{Heads: 10, KVHeads: 1, E: 40},
		{Heads: 70, KVHeads: 35, E: 2},
	} {
		p.Scale = 1 / math.Sqrt(float64(p.E))
		for _, n := range []int{1, 5, 8, 128, 300} {
			for _, last := range slices.Compact([]int{n - 1, n / 2}) {
				q, kv, o := in(1, p.Heads*p.E).gapped(), in(n, p.KVHeads*p.E).gapped(), out(1, p.Heads*p.E)
				kv.value = func(r *rand.Rand, i int) float64 {
					if i >= (last+1)*p.KVHeads*p.E {
						return math.NaN()
					}
					return r.NormFloat64()
				}
				add(fmt.Sprintf("attention of one row/%d of %d %+v", last, n, p), func(b tensor.Backend, x tensors) {
					b.AttentionDecode(x[0], x[1], x[2], x[3], x[4], p)
				}, o, q, kv, kv, in(1).of(tensor.I32).like(float64(last)))
			}
		}
	}
}

// scalers run sequences of steps: overflow (0), good (1), no tokens (2).
func scalers(add adder) {
	all := map[string]tensor.LossScaleParams{
		"torch":       {Growth: 2, Backoff: 0.25, Window: 2, Hysteresis: 1, Unit: 0.125},
		"hysteresis":  {Growth: 2, Backoff: 0.5, Window: 2, Hysteresis: 2, Min: 1, Unit: 1},
		"consecutive": {Growth: 2, Backoff: 0.5, Window: 3, Hysteresis: 2, Min: 1, Consecutive: true, Unit: 0x1p-10},
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		for _, first := range []float64{4, 1, 0x1p126, 0x1p127} {
			for n := range 64 {
				add(fmt.Sprintf("loss scale/%s from %g, %d", name, first, n), func(b tensor.Backend, x tensors) {
					for k := range 6 {
						b.UpdateLossScale(x[0], x[1+n>>k&1], p)
					}
					b.UpdateLossScale(x[0], x[3], p)
				}, out(tensor.LossScaleCount).of(tensor.F64).like(first*p.Unit, first, 0, float64(p.Hysteresis)),
					in(tensor.ScalarCount).of(tensor.F64).like(2, 1, 0, 0, 12), in(tensor.ScalarCount).of(tensor.F64).like(2, 1, 0.25, 1, 12),
					in(tensor.ScalarCount).of(tensor.F64).like(0, 0, 0, 0, 0))
			}
		}
	}
}
