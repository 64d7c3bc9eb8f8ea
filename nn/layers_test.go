package nn_test

import (
	"math"
	"slices"
	"testing"

	"trireme/autograd"
	"trireme/nn"
	"trireme/tensor"
)

func names(ps []*nn.Param) (all []string) {
	for _, p := range ps {
		all = append(all, p.Name)
	}
	return all
}

// TestLinear compares fused with single projections, and Conv1D with a projection by the transposed
// weight.
func TestLinear(t *testing.T) {
	b := newBed(t)
	const n, d = 3, 4
	q := nn.NewLinear("a.q", d, 5, nn.Init{}).WithBias()
	k := nn.NewLinear("a.k", d, 2, nn.Init{}).WithBias()
	both := nn.NewFusedLinear(q, k)
	b.give(both.Params()...)
	if got, want := names(both.Params()), []string{"a.q.weight", "a.k.weight", "a.q.bias", "a.k.bias"}; !slices.Equal(got, want) {
		t.Errorf("parameters %v, want %v", got, want)
	}
	if w, v := both.Weights[1].FusedAfter, both.Biases[1].FusedAfter; w != both.Weights[0] || v != both.Biases[0] || both.Weights[0].FusedAfter != nil {
		t.Error("FusedAfter is wrong")
	}
	x := b.random(n, d)
	var want []float64
	for i := range n {
		for _, l := range []*nn.Linear{q, k} {
			o := l.Weights[0].Shape[0]
			row := product(tensor.Host[float64](x)[i*d:], tensor.Host[float64](l.Weights[0].Value), 1, d, o, false)
			for j := range row {
				want = append(want, row[j]+tensor.Host[float64](l.Biases[0].Value)[j])
			}
		}
	}
	b.near("q and k", b.forward(x, both.Forward), want)

	c := nn.NewConv1D("a.c", d, 5, nn.Init{})
	b.give(c.Params()...)
	if !c.Weight.Shape.Equal(tensor.Shape{d, 5}) {
		t.Errorf("Conv1D weight %v", c.Weight.Shape)
	}
	want = product(tensor.Host[float64](x), tensor.Host[float64](c.Weight.Value), n, d, 5, true)
	for i := range want {
		want[i] += tensor.Host[float64](c.Bias.Value)[i%5]
	}
	b.near("Conv1D", b.forward(x, c.Forward), want)
}

func TestGatedMLP(t *testing.T) {
	b := newBed(t)
	const n, d, f = 3, 4, 6
	m := nn.NewGatedMLP("l.mlp", d, f, true, nn.Init{})
	b.give(m.Params()...)
	by := map[string][]float64{}
	for _, p := range m.Params() {
		by[p.Name] = tensor.Host[float64](p.Value)
	}
	if len(by) != 6 {
		t.Fatalf("parameters %v", names(m.Params()))
	}
	x := b.random(n, d)
	project := func(name string, x []float64, in, out int) []float64 {
		y := product(x, by["l.mlp."+name+".weight"], n, in, out, false)
		for i := range y {
			y[i] += by["l.mlp."+name+".bias"][i%out]
		}
		return y
	}
	gate, up := project("gate_proj", tensor.Host[float64](x), d, f), project("up_proj", tensor.Host[float64](x), d, f)
	for i := range gate {
		gate[i] *= up[i] / (1 + math.Exp(-gate[i]))
	}
	b.near("MLP", b.forward(x, func(t *autograd.Tape, x *autograd.Var) *autograd.Var { return m.Forward(t, x) }), project("down_proj", gate, f, d))
}

// normed is (x - mean)/sqrt(mean square + eps) of each row of d; without centered, mean is 0.
func normed(x []float64, d int, eps float64, centered bool) []float64 {
	y := make([]float64, len(x))
	for lo := 0; lo < len(x); lo += d {
		mean, square := 0.0, 0.0
		for _, v := range x[lo : lo+d] {
			mean += v / float64(d)
		}
		if !centered {
			mean = 0
		}
		for _, v := range x[lo : lo+d] {
			square += (v - mean) * (v - mean) / float64(d)
		}
		for i, v := range x[lo : lo+d] {
			y[lo+i] = (v - mean) / math.Sqrt(square+eps)
		}
	}
	return y
}

func TestNorms(t *testing.T) {
	b := newBed(t)
	const n, d, eps = 3, 5, 0.25
	rms, layer := nn.NewRMSNorm("r", d, eps), nn.NewLayerNorm("l", d, eps)
	b.give(rms.Weight)
	b.give(layer.Params()...)
	x, res := b.random(n, d), b.random(n, d)
	sum := slices.Clone(tensor.Host[float64](x))
	for i, v := range tensor.Host[float64](res) {
		sum[i] += v
	}
	gain, lgain, shift := tensor.Host[float64](rms.Weight.Value), tensor.Host[float64](layer.Weight.Value), tensor.Host[float64](layer.Bias.Value)
	wantRMS := func(x []float64) []float64 {
		y := normed(x, d, eps, false)
		for i := range y {
			y[i] *= gain[i%d]
		}
		return y
	}
	wantLayer := func(x []float64) []float64 {
		y := normed(x, d, eps, true)
		for i := range y {
			y[i] = y[i]*lgain[i%d] + shift[i%d]
		}
		return y
	}
	b.near("RMSNorm", b.forward(x, rms.Forward), wantRMS(tensor.Host[float64](x)))
	b.near("LayerNorm", b.forward(x, layer.Forward), wantLayer(tensor.Host[float64](x)))
	for name, c := range map[string]struct {
		add  func(t *autograd.Tape, x, res *autograd.Var) (y, sum *autograd.Var)
		want []float64
	}{"RMSNorm": {rms.AddForward, wantRMS(sum)}, "LayerNorm": {layer.AddForward, wantLayer(sum)}} {
		tape := autograd.NewTape(b.b, tensor.F64, false)
		y, s := c.add(tape, autograd.Const(x), autograd.Const(res))
		b.near(name+" of a sum", tensor.Host[float64](y.Value), c.want)
		b.near(name+"'s sum", tensor.Host[float64](s.Value), sum)
	}

	// Queries and keys are normalized per head, each with its gain; values are copied.
	const heads, kvHeads, e = 2, 1, 4
	h := nn.NewHeadNorms("q", "k", e, eps)
	b.give(h.Q, h.K)
	qkv := b.random(2, (heads+2*kvHeads)*e)
	want := normed(tensor.Host[float64](qkv), e, eps, false)
	for i := range want {
		switch head := i / e % (heads + 2*kvHeads); {
		case head < heads:
			want[i] *= tensor.Host[float64](h.Q.Value)[i%e]
		case head < heads+kvHeads:
			want[i] *= tensor.Host[float64](h.K.Value)[i%e]
		default:
			want[i] = tensor.Host[float64](qkv)[i]
		}
	}
	b.near("heads", b.forward(qkv, func(t *autograd.Tape, x *autograd.Var) *autograd.Var { return h.Forward(t, x, heads, kvHeads) }), want)
}

// TestPadding checks that the padding row is initialized to 0, and that it alone gets no gradient
// from inputs.
func TestPadding(t *testing.T) {
	const vocab, d = 4, 3
	for _, c := range []struct {
		id  *int
		row int // -1: none
	}{{nil, -1}, {new(1), 1}, {new(-1), 3}, {new(4), -1}, {new(-5), -1}} {
		b := newBed(t)
		e := nn.NewEmbedding("e", vocab, d, nn.Init{Kind: nn.Normal, Std: 1}).WithPadding(c.id)
		first := b.b.New(tensor.Params, tensor.F64, vocab, d)
		e.Weight.Fill(b.b, first, 7, 0)
		b.give(e.Weight)
		table := tensor.Host[float64](e.Weight.Value)
		tape := autograd.NewTape(b.b, tensor.F64, true)
		y := e.Forward(tape, b.ids(3, 1, 1, 0, 2))
		b.near("rows", tensor.Host[float64](y.Value), slices.Concat(table[3*d:], table[d:2*d], table[d:2*d], table[:d], table[2*d:3*d]))
		ones := b.b.New(tensor.Activations, tensor.F64, 5, d)
		b.b.Fill(ones, 1)
		tape.Seed(y, ones)
		tape.Backward()
		grad := tensor.Host[float64](b.grads[e.Weight])
		for row := range vocab {
			count := []float64{1, 2, 1, 1}[row]
			if row == c.row {
				count = 0
			}
			if zero := tensor.Host[float64](first)[row*d] == 0; grad[row*d] != count || zero != (row == c.row) {
				t.Errorf("padding %d, row %d: gradient %v, want %v; initialized to 0: %v", c.row, row, grad[row*d], count, zero)
			}
		}
	}
}
