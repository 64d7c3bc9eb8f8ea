package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"trireme/autograd"
	"trireme/internal/backend/naive"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
	"trireme/tensor/compose"
)

// Gradients compares the gradient of the network described by config (a config.json with at least 5
// positions) with central differences in float64, on a sample of each parameter's elements, with
// one and several documents per sequence. It checks that every recomputation policy gives the same
// bits with less memory, that a core-only backend gives the same gradient, and runs Ranges and
// Rows. Dropout is on if the configuration has it.
func Gradients(t *testing.T, f model.Family, config string) {
	t.Helper()
	Ranges(t, f, config)
	Rows(t, f, config)
	documents(t, f, config)
	dropoutNames(t, f, config)
	for _, docs := range []bool{false, true} {
		t.Run(fmt.Sprintf("documents %t", docs), func(t *testing.T) {
			n := newNetwork(t, naive.New(), f, config, docs, recomputation{})
			live := n.b.Meter().Read().LiveTotal
			n.loss(true)
			use := n.b.Meter().Read()
			if use.LiveTotal != live {
				t.Errorf("%d bytes are live after backward", use.LiveTotal-live)
			}
			n.compare(t)
			for _, how := range recomputations {
				n.compareRecomputed(t, newNetwork(t, naive.New(), f, config, docs, how), how, use.Peak[tensor.Activations])
			}
			core := newNetwork(t, compose.NewBackend(naive.New()), f, config, docs, recomputation{})
			core.loss(true)
			n.compareCore(t, core)
		})
	}
}

// recomputation is a recomputation policy to test.
type recomputation struct {
	name     string
	again    nn.RecomputePolicy
	segments int
	less     bool // expect less memory
}

var recomputations = []recomputation{
	{"layers", nn.RecomputePolicy{Part: nn.Layer}, 0, true},
	{"attention", nn.RecomputePolicy{Part: nn.Attention}, 0, true},
	{"mlp", nn.RecomputePolicy{Part: nn.MLP}, 0, true},
	{"attention and mlp", nn.RecomputePolicy{Part: nn.Attention | nn.MLP, Save: autograd.SaveAttention}, 0, true},
	{"all but attention", nn.RecomputePolicy{Part: nn.Layer, Save: autograd.SaveAttention}, 0, true},
	{"all but products", nn.RecomputePolicy{Part: nn.Layer, Save: autograd.SaveMatMul}, 0, false},
	{"attention but products", nn.RecomputePolicy{Part: nn.Attention, Save: autograd.SaveMatMul}, 0, false},
	{"two segments", nn.RecomputePolicy{}, 2, false},
	{"three segments", nn.RecomputePolicy{}, 3, false},
	{"nested segments", nn.RecomputePolicy{Part: nn.Layer}, 2, true},
	{"segments with mlp", nn.RecomputePolicy{Part: nn.MLP, Save: autograd.SaveMatMul}, 2, false},
}

// compareRecomputed compares m, n with recomputation, with n.
func (n *network) compareRecomputed(t *testing.T, m *network, how recomputation, peak int64) {
	t.Helper()
	live := m.b.Meter().Read().LiveTotal
	m.loss(true)
	use := m.b.Meter().Read()
	if use.LiveTotal != live {
		t.Errorf("%s: %d bytes are live after backward", how.name, use.LiveTotal-live)
	}
	if got := use.Peak[tensor.Activations]; how.less && got >= peak {
		t.Errorf("%s: %d bytes of activations, %d without recomputation", how.name, got, peak)
	}
	for name, g := range n.grads {
		got := tensor.Host[float64](m.grads[name])
		for i, want := range tensor.Host[float64](g) {
			if math.Float64bits(got[i]) != math.Float64bits(want) {
				t.Fatalf("%s: %s, element %d: %v, %v without recomputation", how.name, name, i, got[i], want)
			}
		}
	}
}

// compareCore compares the gradients of core, the network on a core-only backend, with n's.
func (n *network) compareCore(t *testing.T, core *network) {
	t.Helper()
	for name, g := range n.grads {
		got := tensor.Host[float64](core.grads[name])
		for i, want := range tensor.Host[float64](g) {
			if math.Abs(got[i]-want) > 1e-9*(1+math.Abs(want)) {
				t.Fatalf("core-only backend: %s, element %d: %v, want %v", name, i, got[i], want)
			}
		}
	}
}

// network is an F64 model with separately allocated parameters, which have a value only while a unit
// that lists them runs.
type network struct {
	b      tensor.Backend
	m      model.Model
	values gathered
	grads  map[string]*tensor.Tensor
	batch  model.Batch
	seen   map[string]bool
}

func newNetwork(t *testing.T, b tensor.Backend, f model.Family, config string, docs bool, how recomputation) *network {
	t.Helper()
	n := &network{b: b, values: gathered{}, grads: map[string]*tensor.Tensor{}, seen: map[string]bool{}}
	var err error
	if n.m, err = f.New(n.b, []byte(config), 0); err != nil {
		t.Fatal(err)
	}
	nn.Recompute(n.m.Units(), func(int) nn.RecomputePolicy { return how.again })
	nn.Segments(n.m.Units(), how.segments)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, p := range model.Params(n.m) {
		value := n.b.New(tensor.Params, tensor.F64, p.Shape...)
		n.values[p] = value
		for i := range value.Elems() {
			v := 0.4 * rng.NormFloat64()
			if !p.Decays() && !strings.HasSuffix(p.Name, "bias") {
				v++ // a norm weight
			}
			tensor.Host[float64](value)[i] = v
		}
		g := n.b.New(tensor.Grads, tensor.F64, p.Shape...)
		n.grads[p.Name] = g
		p.SetGradDst(func() (*tensor.Tensor, bool) {
			was := n.seen[p.Name]
			n.seen[p.Name] = true
			return g, was
		})
	}
	for _, u := range n.m.Units() {
		u.Observer = n.values
	}
	n.batch = n.makeBatch(rng, docs)
	return n
}

func (n *network) makeBatch(rng *rand.Rand, docs bool) model.Batch {
	const B, T = 2, 5
	starts, longest := []int{0, T, 2 * T}, T
	if docs { // and a row outside any sequence
		starts, longest = []int{0, 3, 2*T - 1}, T+1
	}
	info := n.m.Info()
	ints := func(count int, f func(i int) int) *tensor.Tensor {
		x := n.b.New(tensor.Workspace, tensor.I32, count)
		for i := range count {
			tensor.Host[int32](x)[i] = int32(f(i))
		}
		return x
	}
	b := model.Batch{
		Train: true, Seed: 9, MaxSeqLen: longest, TokenKeys: n.b.New(tensor.Workspace, tensor.I64, B*T), SampleKeys: n.b.New(tensor.Workspace, tensor.I64, B),
		IDs:       ints(B*T, func(int) int { return rng.IntN(info.Vocab) }),
		Targets:   ints(B*T, func(int) int { return rng.IntN(info.Vocab+2) - 2 }),
		Positions: ints(B*T, func(i int) int { return i % T }),
		Starts:    ints(B+1, func(i int) int { return starts[i] }),
	}
	for i := range B * T {
		tensor.Host[int64](b.TokenKeys)[i] = int64(40 + i)
	}
	for i := range B {
		tensor.Host[int64](b.SampleKeys)[i] = int64(8 + i)
	}
	if info.Task == model.Classify {
		b.Classes = ints(B, func(i int) int { return i*info.Labels - i })
	}
	if docs {
		tensor.Host[int32](b.Targets)[2*T-1] = -1
		b.Docs = ints(B*T, func(i int) int { return i%T/3 - i/T }) // includes -1, as for rows hidden by an attention mask
		b.Positions = ints(B*T, func(i int) int { return i % T % 3 })
		b.Types = ints(B*T, func(i int) int { return i % 2 })
	}
	return b
}

func (n *network) loss(grad bool) float64 {
	tape := autograd.NewTape(n.b, tensor.F64, grad)
	sums := n.zeros()
	defer sums.Release()
	model.Loss(n.m, tape, n.batch, sums)
	tape.Backward()
	return tensor.Host[float64](sums)[0]
}

func (n *network) compare(t *testing.T) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	const h = 1e-5
	for _, p := range model.Params(n.m) {
		if !n.seen[p.Name] {
			t.Errorf("%s has no gradient", p.Name)
			continue
		}
		v, g := tensor.Host[float64](n.values[p]), tensor.Host[float64](n.grads[p.Name])
		for range 3 {
			i := rng.IntN(len(v))
			was := v[i]
			v[i] = was + h
			up := n.loss(false)
			v[i] = was - h
			down := n.loss(false)
			v[i] = was
			if want := (up - down) / (2 * h); math.Abs(g[i]-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%s, element %d: gradient %v, differences %v", p.Name, i, g[i], want)
			}
		}
	}
}
