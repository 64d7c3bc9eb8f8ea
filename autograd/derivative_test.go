package autograd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/internal/backend/cpu"
	"trireme/internal/backend/naive"
	"trireme/tensor"
)

// check compares gradients with central differences in float64. The loss is the dot product of f's
// result and fixed random numbers.
type check struct {
	t   *testing.T
	b   *naive.Backend
	rng *rand.Rand
}

func newCheck(t *testing.T) *check {
	return &check{t, naive.New(), rand.New(rand.NewPCG(1, 2))}
}

func (c *check) random(shape ...int) *tensor.Tensor {
	x := c.b.New(tensor.Params, tensor.F64, shape...)
	for i := range tensor.Host[float64](x) {
		tensor.Host[float64](x)[i] = c.rng.NormFloat64()
	}
	return x
}

func (c *check) ints(limit, n int) *tensor.Tensor {
	x := c.b.New(tensor.Workspace, tensor.I32, n)
	for i := range n {
		tensor.Host[int32](x)[i] = c.rng.Int32N(int32(limit))
	}
	return x
}

// numbers are row ids from first on.
func (c *check) numbers(rows int, first int64) *tensor.Tensor {
	x := c.b.New(tensor.Workspace, tensor.I64, rows)
	for i := range rows {
		tensor.Host[int64](x)[i] = first + int64(i)
	}
	return x
}

// counting is 0, 1, ... limit-1, repeated.
func (c *check) counting(rows, limit int) *tensor.Tensor {
	x := c.ints(1, rows)
	for i := range rows {
		tensor.Host[int32](x)[i] = int32(i % limit)
	}
	return x
}

// starts are cumulative sequence lengths.
func (c *check) starts(at ...int32) *tensor.Tensor {
	x := c.ints(1, len(at))
	copy(tensor.Host[int32](x), at)
	return x
}

// leaf is a parameter with its gradient destination.
func (c *check) leaf(shape ...int) (*Var, *tensor.Tensor) {
	v := &Var{Value: c.random(shape...)}
	g := c.b.New(tensor.Grads, tensor.F64, shape...)
	written := false
	v.SetGradDst(func() (*tensor.Tensor, bool) {
		was := written
		written = true
		return g, was
	})
	return v, g
}

func (c *check) run(name string, leaves []*Var, grads []*tensor.Tensor, f func(*Tape, []*Var) *Var) {
	c.t.Helper()
	live := c.b.Meter().Read().LiveTotal
	var weights *tensor.Tensor
	loss := func(grad bool) float64 {
		tape := NewTape(c.b, tensor.F64, grad)
		sum := 0.0
		tape.Scope(func() *Var {
			// f gets values, not parameters, so that gradients reach the leaves through it.
			ins := make([]*Var, len(leaves))
			for i, l := range leaves {
				ins[i] = tape.input(l)
			}
			y := f(tape, ins)
			if weights == nil {
				weights = c.random(y.Value.Shape()...)
				live += int64(weights.Bytes())
			}
			for i, v := range tensor.Host[float64](y.Value) {
				sum += v * tensor.Host[float64](weights)[i]
			}
			d := tape.alloc(y.Value.Shape()...)
			c.b.Copy(d, weights)
			y.grad = &gradient{d, 1}
			if !grad {
				d.Release()
			}
			return nil
		})
		tape.Backward()
		return sum
	}
	loss(true)
	const h = 1e-5
	for k, l := range leaves {
		if grads[k] == nil {
			continue
		}
		got := tensor.Host[float64](grads[k])
		for i := range tensor.Host[float64](l.Value) {
			p := &tensor.Host[float64](l.Value)[i]
			was := *p
			*p = was + h
			up := loss(false)
			*p = was - h
			down := loss(false)
			*p = was
			want := (up - down) / (2 * h)
			if math.Abs(got[i]-want) > 1e-7*(1+math.Abs(want))*10 {
				c.t.Fatalf("%s: input %d, element %d: gradient %v, differences %v", name, k, i, got[i], want)
			}
		}
	}
	if now := c.b.Meter().Read().LiveTotal; now != live {
		c.t.Errorf("%s: %d bytes in use after backward", name, now-live)
	}
}

// input copies a leaf into a value that accumulates the leaf's gradient.
func (t *Tape) input(l *Var) *Var {
	x := t.newVar(t.alloc(l.Value.Shape()...), l)
	t.b.Copy(x.Value, l.Value)
	t.record(x, nil, func(d *gradient) {
		dst, acc := gradDst(l)
		if acc {
			t.b.AddScaled(dst, d.t, 1)
		} else {
			t.b.Copy(dst, d.t)
		}
		t.release(d)
	})
	return x
}

func (c *check) leaves(shapes ...[]int) (vs []*Var, gs []*tensor.Tensor) {
	for _, s := range shapes {
		v, g := c.leaf(s...)
		vs, gs = append(vs, v), append(gs, g)
	}
	return vs, gs
}

func TestDerivatives(t *testing.T) {
	rope := func(c *check, e int) RopeTable {
		return RopeTable{Cos: c.random(7, e/2), Sin: c.random(7, e/2), Positions: c.counting(10, 5)}
	}
	for name, test := range map[string]struct {
		shapes [][]int
		f      func(c *check) func(*Tape, []*Var) *Var
	}{
		"add, one input twice": {[][]int{{3, 4}}, func(*check) func(*Tape, []*Var) *Var {
			return func(t *Tape, x []*Var) *Var { return t.Add(t.Add(x[0], x[0]), x[0]) }
		}},
		"rmsnorm": {[][]int{{3, 5}}, func(c *check) func(*Tape, []*Var) *Var {
			w := Const(c.random(5))
			return func(t *Tape, x []*Var) *Var { return t.RMSNorm(x[0], w, 1e-5) }
		}},
		"rmsnorm of a sum that is used again": {[][]int{{3, 5}, {3, 5}}, func(c *check) func(*Tape, []*Var) *Var {
			w := Const(c.random(5))
			return func(t *Tape, x []*Var) *Var {
				y, sum := t.AddRMSNorm(x[0], x[1], w, 1e-5)
				return t.Add(y, sum)
			}
		}},
		"layernorm of a sum that is used again": {[][]int{{3, 5}, {3, 5}}, func(c *check) func(*Tape, []*Var) *Var {
			w, b := Const(c.random(5)), Const(c.random(5))
			return func(t *Tape, x []*Var) *Var {
				y, sum := t.AddLayerNorm(x[0], x[1], w, b, 1e-5)
				return t.Add(sum, y)
			}
		}},
		"swiglu": {[][]int{{3, 8}}, func(*check) func(*Tape, []*Var) *Var {
			return func(t *Tape, x []*Var) *Var { return t.SwiGLU(x[0]) }
		}},
		"gelu by tanh": {[][]int{{3, 4}}, func(*check) func(*Tape, []*Var) *Var {
			return func(t *Tape, x []*Var) *Var { return t.GELU(x[0], true) }
		}},
		"gelu by erf": {[][]int{{3, 4}}, func(*check) func(*Tape, []*Var) *Var {
			return func(t *Tape, x []*Var) *Var { return t.GELU(x[0], false) }
		}},
		"tanh": {[][]int{{3, 4}}, func(*check) func(*Tape, []*Var) *Var {
			return func(t *Tape, x []*Var) *Var { return t.Tanh(x[0]) }
		}},
		"rows, one of them twice, of a value that is used again": {[][]int{{4, 3}}, func(c *check) func(*Tape, []*Var) *Var {
			rows := c.ints(4, 4)
			copy(tensor.Host[int32](rows), []int32{2, 0, 2, 3})
			return func(t *Tape, x []*Var) *Var { return t.Add(x[0], t.SelectRows(x[0], rows)) }
		}},
		"first rows": {[][]int{{6, 3}}, func(c *check) func(*Tape, []*Var) *Var {
			rows := c.ints(1, 2)
			copy(tensor.Host[int32](rows), []int32{0, 3})
			return func(t *Tape, x []*Var) *Var { return t.SelectRows(x[0], rows) }
		}},
		"dropout": {[][]int{{5, 7}}, func(c *check) func(*Tape, []*Var) *Var {
			first := c.numbers(5, 3)
			return func(t *Tape, x []*Var) *Var { return t.Dropout(x[0], tensor.RandKey{Seed: 5}, first, 0.4) }
		}},
		"attention with dropout": {[][]int{{10, (4 + 2*2) * 2}}, func(c *check) func(*Tape, []*Var) *Var {
			p := tensor.AttentionParams{Starts: c.starts(0, 5, 10), MaxSeqLen: 5, Heads: 4, KVHeads: 2, E: 2, Scale: 0.5, Dropout: 0.3, Key: tensor.RandKey{Seed: 7, Stream: 1}, Rows: c.numbers(10, 20)}
			return func(t *Tape, x []*Var) *Var { return t.Attention(x[0], nil, p) }
		}},
		"rope and attention, grouped, causal": {[][]int{{10, (4 + 2*2) * 4}}, func(c *check) func(*Tape, []*Var) *Var {
			r := rope(c, 4)
			p := tensor.AttentionParams{Starts: c.starts(0, 3, 10), MaxSeqLen: 7, Heads: 4, KVHeads: 2, E: 4, Scale: 0.5, Causal: true}
			return func(t *Tape, x []*Var) *Var { return t.Attention(t.Rope(x[0], 24, 4, r), nil, p) }
		}},
		"attention of other rows": {[][]int{{10, 4 * 4}, {10, 2 * 2 * 4}}, func(c *check) func(*Tape, []*Var) *Var {
			r := rope(c, 4)
			p := tensor.AttentionParams{Starts: c.starts(0, 4, 9), MaxSeqLen: 6, Heads: 4, KVHeads: 2, E: 4, Scale: 0.5}
			return func(t *Tape, x []*Var) *Var { return t.CrossAttention(x[0], t.Rope(x[1], 8, 4, r), nil, p) }
		}},
		"attention in a window and in documents": {[][]int{{12, 3 * 2}}, func(c *check) func(*Tape, []*Var) *Var {
			docs := c.ints(2, 12)
			p := tensor.AttentionParams{Starts: c.starts(0, 6, 12), MaxSeqLen: 6, Heads: 1, KVHeads: 1, E: 2, Scale: 0.7, Causal: true, Window: 3}
			return func(t *Tape, x []*Var) *Var { return t.Attention(x[0], docs, p) }
		}},
		"checkpointed layer": {[][]int{{3, 8}}, func(*check) func(*Tape, []*Var) *Var {
			return func(t *Tape, x []*Var) *Var {
				return t.Checkpoint(0, func(t *Tape, x ...*Var) *Var {
					y := t.SwiGLU(x[0])
					return t.Add(y, t.GELU(y, true))
				}, x...)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheck(t)
			vs, gs := c.leaves(test.shapes...)
			c.run(name, vs, gs, test.f(c))
		})
	}
}

// Parameters are leaves: this tests their gradient destinations, fused or not, written and
// accumulated.
func TestDerivativesOfParameters(t *testing.T) {
	c := newCheck(t)
	x, gx := c.leaf(4, 3)
	w1, g1 := c.leaf(2, 3)
	w2, g2 := c.leaf(5, 3)
	b1, h1 := c.leaf(2)
	b2, h2 := c.leaf(5)
	gain, gg := c.leaf(7)
	shift, gs := c.leaf(7)
	c.run("linear and layernorm", []*Var{x, w1, w2, b1, b2, gain, shift}, []*tensor.Tensor{gx, g1, g2, h1, h2, gg, gs}, func(t *Tape, in []*Var) *Var {
		y := t.Linear(in[0], []*Var{w1, w2}, []*Var{b1, b2})
		return t.LayerNorm(y, gain, shift, 1e-5)
	})

	c = newCheck(t)
	x, gx = c.leaf(4, 3)
	both := c.random(7, 3)
	sum := c.b.New(tensor.Grads, tensor.F64, 7, 3)
	part := func(lo, hi int) *Var {
		v := &Var{Value: both.RowRange(lo, hi)}
		v.SetGradDst(func() (*tensor.Tensor, bool) { return sum.RowRange(lo, hi), false })
		return v
	}
	all := &Var{Value: both}
	p1, p2 := part(0, 2), part(2, 7)
	gain, gg = c.leaf(7)
	c.run("joined linear and rmsnorm", []*Var{x, all, gain}, []*tensor.Tensor{gx, sum, gg}, func(t *Tape, in []*Var) *Var {
		return t.RMSNorm(t.Linear(in[0], []*Var{p1, p2}, nil), gain, 1e-5)
	})

	c = newCheck(t)
	row, gr := c.leaf(4)
	c.run("repeated row, twice", []*Var{row}, []*tensor.Tensor{gr}, func(t *Tape, _ []*Var) *Var {
		return t.Add(t.Repeat(row, 3), t.GELU(t.Repeat(row, 3), true))
	})

	c = newCheck(t)
	x, gx = c.leaf(4, 3)
	w1, g1 = c.leaf(3, 5)
	w2, g2 = c.leaf(3, 5)
	b1, h1 = c.leaf(5)
	c.run("linear by transposed weights", []*Var{x, w1, w2, b1}, []*tensor.Tensor{gx, g1, g2, h1}, func(t *Tape, in []*Var) *Var {
		return t.Add(t.LinearT(in[0], w1, b1), t.LinearT(in[0], w2, nil))
	})

	const heads, kvHeads, e = 4, 2, 6
	for _, attention := range []bool{false, true} {
		c = newCheck(t)
		x, gx = c.leaf(5, (heads+2*kvHeads)*e)
		w1, g1 = c.leaf(e)
		w2, g2 = c.leaf(e)
		p := tensor.AttentionParams{Starts: c.starts(0, 5), MaxSeqLen: 5, Heads: heads, KVHeads: kvHeads, E: e, Scale: 0.5, Causal: true}
		r := RopeTable{Cos: c.random(5, e/2), Sin: c.random(5, e/2), Positions: c.counting(5, 5)}
		c.run(fmt.Sprint("norm of heads, attention ", attention), []*Var{x, w1, w2}, []*tensor.Tensor{gx, g1, g2}, func(t *Tape, in []*Var) *Var {
			return t.Scope(func() *Var {
				y := t.HeadRMSNorm(in[0], w1, w2, heads, kvHeads, e, 1e-5)
				if attention {
					y = t.Attention(t.Rope(y, (heads+kvHeads)*e, e, r), nil, p)
				}
				return y
			})
		})
	}

	c = newCheck(t)
	table, gt := c.leaf(6, 3)
	ids := c.ints(6, 9)
	c.run("embedding and its tied head", []*Var{table}, []*tensor.Tensor{gt}, func(t *Tape, _ []*Var) *Var {
		return t.Linear(t.Embedding(table, ids, tensor.NoPadding), []*Var{table}, nil)
	})
}

// runLoss checks a loss operation: f adds to sums[0].
func (c *check) runLoss(sums int, leaves []*Var, grads []*tensor.Tensor, f func(t *Tape, sums *tensor.Tensor)) (first []float64) {
	c.t.Helper()
	live := c.b.Meter().Read().LiveTotal
	loss := func(grad bool) []float64 {
		tape := NewTape(c.b, tensor.F64, grad)
		sum := c.b.New(tensor.Workspace, tensor.F64, sums)
		defer sum.Release()
		c.b.Fill(sum, 0)
		tape.Scope(func() *Var {
			f(tape, sum)
			return nil
		})
		tape.Backward()
		return append([]float64(nil), tensor.Host[float64](sum)...)
	}
	first = loss(true)
	for k, v := range leaves {
		want := slope(tensor.Host[float64](v.Value), func() float64 { return loss(false)[0] })
		c.compact(fmt.Sprint("input ", k), tensor.Host[float64](grads[k]), want)
	}
	if now := c.b.Meter().Read().LiveTotal; now != live {
		c.t.Errorf("%d bytes in use after backward", now-live)
	}
	return first
}

func TestLinearCrossEntropy(t *testing.T) {
	c := newCheck(t)
	x, gx := c.leaf(9, 4)
	w, gw := c.leaf(11, 4)
	targets := c.ints(11, 9)
	tensor.Host[int32](targets)[3] = -100
	c.runLoss(1, []*Var{x, w}, []*tensor.Tensor{gx, gw}, func(t *Tape, sum *tensor.Tensor) {
		t.LinearCrossEntropy(sum, t.input(x), w, nil, Labels{Targets: targets})
	})
}

// static is a backend with static shapes.
type static struct{ tensor.Backend }

func (static) Static() bool { return true }

// Skipping rows without labels gives the same bits if all logits fit one block, and the same values
// up to summation order otherwise.
func TestLinearCrossEntropySubset(t *testing.T) {
	b, err := cpu.New(cpu.Options{Threads: 2, Reserve: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, c := range []struct{ n, vocab, counted int }{
		{50, 300, 0}, {50, 300, 1}, {50, 300, 17}, {50, 300, 49}, {50, 300, 50},
		{300, 40000, 0}, {300, 40000, 217}, {300, 40000, 280}, // blocks of 256 rows
	} {
		for _, kind := range []struct{ grad, frozen bool }{{true, false}, {true, true}, {false, false}} {
			const d = 6
			rng := rand.New(rand.NewPCG(3, uint64(c.counted)))
			ints := func() (*tensor.Tensor, []int32) {
				x := b.New(tensor.Workspace, tensor.I32, c.n)
				return x, tensor.Host[int32](x)
			}
			targets, target := ints()
			rows, row := ints()
			of, some := ints()
			at := 0
			for i := range c.n {
				target[i], row[i], some[i] = -100, 0, -100
				if (i+1)*c.counted/c.n > i*c.counted/c.n {
					target[i] = rng.Int32N(int32(c.vocab))
					row[at], some[at] = int32(i), target[i]
					at++
				}
			}
			x, w, gw := b.New(tensor.Activations, tensor.F32, c.n, d), b.New(tensor.Params, tensor.F32, c.vocab, d), b.New(tensor.Grads, tensor.F32, c.vocab, d)
			b.Normal(x, tensor.RandKey{Seed: 1}, 0, 1)
			b.Normal(w, tensor.RandKey{Seed: 2}, 0, 1)
			run := func(b tensor.Backend, l Labels) (loss float64, dx, dw []float32) {
				tape, sum := NewTape(b, tensor.F32, kind.grad), b.New(tensor.Workspace, tensor.F64, 1)
				defer sum.Release()
				b.Fill(sum, 0)
				b.Fill(gw, 7)
				in, weight := &Var{Value: x}, &Var{Value: w}
				weight.SetGradDst(func() (*tensor.Tensor, bool) { return gw, false })
				if !kind.frozen {
					g := b.New(tensor.Grads, tensor.F32, c.n, d)
					defer g.Release()
					in.SetGradDst(func() (*tensor.Tensor, bool) { return g, false })
					dx = tensor.Host[float32](g)
				}
				tape.LinearCrossEntropy(sum, tape.input(in), weight, nil, l)
				tape.Backward()
				return tensor.Host[float64](sum)[0], slices.Clone(dx), slices.Clone(tensor.Host[float32](gw))
			}
			loss, dx, dw := run(b, Labels{Targets: targets})
			loss2, dx2, dw2 := run(b, Labels{Targets: targets, Rows: rows, RowTargets: of, Count: c.counted})
			if loss2 != loss || kind.grad && !slices.Equal(dx, dx2) {
				t.Errorf("%+v %+v: loss %v, of all rows %v; gradients of x equal: %t", c, kind, loss2, loss, slices.Equal(dx, dx2))
			}
			// Padding rows of a bucket change no bit.
			for _, bucket := range []int{min(c.n, c.counted+c.counted/2+1), c.n} {
				loss3, dx3, dw3 := run(static{b}, Labels{Targets: targets, Rows: rows, RowTargets: of, Count: bucket})
				if loss3 != loss2 || !slices.Equal(dx3, dx2) || !slices.Equal(dw3, dw2) {
					t.Errorf("%+v %+v: %d rows in a bucket of %d: bits differ", c, kind, c.counted, bucket)
				}
			}
			exact := c.n <= LogitRows(b, c.vocab)
			for i := range dw {
				if off := math.Abs(float64(dw[i] - dw2[i])); exact && off > 0 || off > 1e-5 {
					t.Fatalf("%+v %+v: gradient %d of w is %v, of all %v", c, kind, i, dw2[i], dw[i])
				}
			}
			for _, x := range []*tensor.Tensor{targets, rows, of, x, w, gw} {
				x.Release()
			}
		}
	}
}

func TestClassify(t *testing.T) {
	const classes = 3
	c := newCheck(t)
	x, gx := c.leaf(6, classes)
	copy(tensor.Host[float64](x.Value), []float64{
		1, 2, 0, // class 1
		5, 5, 5, // the first of several
		0, -1, 3,
		9, 0, 0, // no label
		0, 4, 4,
		2, 1, 0,
	})
	labels := c.ints(1, 6)
	copy(tensor.Host[int32](labels), []int32{1, 2, 2, -100, 2, 0})
	got := c.runLoss(1+3*classes, []*Var{x}, []*tensor.Tensor{gx}, func(t *Tape, sums *tensor.Tensor) {
		t.Classify(sums, t.input(x), labels)
	})
	want := []float64{
		1, 1, 1, // right
		2, 2, 1, // predicted
		1, 1, 3, // labels
	}
	for i, w := range want {
		if got[1+i] != w {
			t.Errorf("count %d is %v, want %v", i, got[1+i], w)
		}
	}
	again := NewTape(c.b, tensor.F64, true)
	again.recomputing = true
	sums := c.random(1 + 3*classes)
	before := append([]float64(nil), tensor.Host[float64](sums)...)
	again.Classify(sums, &Var{Value: x.Value, requiresGrad: true}, labels)
	for i, v := range tensor.Host[float64](sums) {
		if v != before[i] {
			t.Errorf("sum %d is added twice", i)
		}
	}
}

func TestCheckpointBits(t *testing.T) {
	run := func(recompute bool) []float64 {
		c := newCheck(t)
		x, gx := c.leaf(6, 8)
		w, gw := c.leaf(8, 4)
		f := func(t *Tape, x ...*Var) *Var { return t.Linear(t.SwiGLU(x[0]), []*Var{w}, nil) }
		tape := NewTape(c.b, tensor.F64, true)
		tape.Scope(func() *Var {
			in := tape.input(x)
			var y *Var
			if recompute {
				y = tape.Checkpoint(0, f, in)
			} else {
				y = f(tape, in)
			}
			d := tape.alloc(y.Value.Shape()...)
			c.b.Fill(d, 1)
			y.grad = &gradient{d, 1}
			return nil
		})
		tape.Backward()
		return append(tensor.Host[float64](gx), tensor.Host[float64](gw)...)
	}
	a, b := run(false), run(true)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("element %d: %v without, %v with recomputation", i, a[i], b[i])
		}
	}
}

// A checkpointed function that modifies its input in place is refused on the first run.
func TestCheckpointInput(t *testing.T) {
	c := newCheck(t)
	x, _ := c.leaf(4, 8)
	r := RopeTable{Cos: c.random(4, 2), Sin: c.random(4, 2), Positions: c.counting(4, 4)}
	tape := NewTape(c.b, tensor.F64, true)
	defer func() {
		if recover() == nil {
			t.Error("in-place operation accepted")
		}
	}()
	tape.Scope(func() *Var {
		return tape.Checkpoint(0, func(t *Tape, x ...*Var) *Var { return t.Rope(x[0], 8, 4, r) }, tape.input(x))
	})
}
