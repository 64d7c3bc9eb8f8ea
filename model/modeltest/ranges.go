package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trireme/autograd"
	"trireme/internal/backend/naive"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// stage is a pipeline stage: a range of units, with its state of each micro-batch between forward
// and backward.
type stage struct {
	n        *network
	from, to int
	tapes    map[int]*autograd.Tape
	in, out  map[int]*autograd.Var
}

func (n *network) stage(from, to int) *stage {
	return &stage{n, from, to, map[int]*autograd.Tape{}, map[int]*autograd.Var{}, map[int]*autograd.Var{}}
}

// forward runs micro-batch m on x, the output of the previous stage; nil for the first.
func (s *stage) forward(m int, b model.Batch, x, sums *tensor.Tensor) *tensor.Tensor {
	t := autograd.NewTape(s.n.b, tensor.F64, true)
	s.tapes[m] = t
	if x != nil {
		s.in[m] = t.Input(x)
	}
	if s.out[m] = model.Run(s.n.m, t, s.in[m], b, s.from, s.to, sums); s.out[m] == nil {
		return nil
	}
	return s.out[m].Value
}

// backward runs micro-batch m's backward pass from dy, the gradient of forward's output, and
// returns the gradient of its input. Both are nil at the ends of the model.
func (s *stage) backward(m int, dy *tensor.Tensor) *tensor.Tensor {
	t := s.tapes[m]
	if dy != nil {
		t.Seed(s.out[m], dy)
	}
	t.Backward()
	if s.in[m] == nil {
		return nil
	}
	return t.Gradient(s.in[m])
}

// Ranges checks that the network run by ranges of units, each on its own tape, has the same bits of
// sums and gradients as all units at once, also in a 1F1B schedule of two stages and two
// micro-batches.
func Ranges(t *testing.T, f model.Family, config string) {
	t.Helper()
	for _, docs := range []bool{false, true} {
		t.Run(fmt.Sprintf("ranges, documents %t", docs), func(t *testing.T) {
			build := func(how recomputation) *network { return newNetwork(t, naive.New(), f, config, docs, how) }
			ranges(t, build)
			schedule(t, build)
		})
	}
}

// ranges runs two and three ranges, also with recomputation.
func ranges(t *testing.T, make func(recomputation) *network) {
	for _, how := range append([]recomputation{{name: "nothing"}}, recomputations...) {
		if how.again.Part&^nn.Layer != 0 || how.again.Save != 0 {
			continue // recomputation within a unit
		}
		whole := make(how)
		want := whole.sums(whole.batch)
		units := len(whole.m.Units())
		for _, cuts := range [][]int{{0, units / 2, units}, {0, 1, units - 1, units}} {
			n := make(how)
			live := n.b.Meter().Read().LiveTotal
			sums := n.zeros()
			var stages []*stage
			var x, dy *tensor.Tensor
			for i := range cuts[1:] {
				stages = append(stages, n.stage(cuts[i], cuts[i+1]))
				x = stages[i].forward(0, n.batch, x, sums)
			}
			for i := len(stages) - 1; i >= 0; i-- {
				dy = stages[i].backward(0, dy)
			}
			got := append([]float64(nil), tensor.Host[float64](sums)...)
			sums.Release()
			n.same(t, fmt.Sprintf("ranges %v, recompute %s", cuts, how.name), got, want, whole)
			if now := n.b.Meter().Read().LiveTotal; now != live {
				t.Errorf("ranges %v, %s: %d bytes are live after backward", cuts, how.name, now-live)
			}
		}
	}
}

// schedule runs two stages in a 1F1B schedule (Narayanan et al. 2021).
func schedule(t *testing.T, make func(recomputation) *network) {
	n, whole := make(recomputation{}), make(recomputation{})
	batches := []model.Batch{n.batch, n.makeBatch(rand.New(rand.NewPCG(8, 9)), n.batch.Docs != nil)}
	sums := []*tensor.Tensor{n.zeros(), n.zeros()}
	units := len(n.m.Units())
	first, second := n.stage(0, units/2), n.stage(units/2, units)
	x := first.forward(0, batches[0], nil, sums[0])
	y := first.forward(1, batches[1], nil, sums[1])
	second.forward(0, batches[0], x, sums[0])
	first.backward(0, second.backward(0, nil))
	second.forward(1, batches[1], y, sums[1])
	first.backward(1, second.backward(1, nil))
	var got, want []float64
	for i, b := range batches {
		got = append(got, tensor.Host[float64](sums[i])...)
		want = append(want, whole.sums(b)...)
	}
	n.same(t, "1F1B", got, want, whole)
}

// zeros returns sums of 0.
func (n *network) zeros() *tensor.Tensor {
	sums := n.b.New(tensor.Workspace, tensor.F64, n.m.Info().SumCount())
	n.b.Fill(sums, 0)
	return sums
}

// sums runs all units forward and backward.
func (n *network) sums(b model.Batch) []float64 {
	tape := autograd.NewTape(n.b, tensor.F64, true)
	sums := n.zeros()
	defer sums.Release()
	model.Loss(n.m, tape, b, sums)
	tape.Backward()
	return append([]float64(nil), tensor.Host[float64](sums)...)
}

// same compares sums and gradients with another network's, bit by bit.
func (n *network) same(t *testing.T, what string, got, want []float64, whole *network) {
	t.Helper()
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Errorf("%s: sum %d is %v, %v at once", what, i, got[i], want[i])
		}
	}
	for _, p := range model.Params(n.m) {
		n.sameGradient(t, what, p, whole)
	}
}

func (n *network) sameGradient(t *testing.T, what string, p *nn.Param, whole *network) {
	t.Helper()
	got := tensor.Host[float64](n.grads[p.Name])
	for i, v := range tensor.Host[float64](whole.grads[p.Name]) {
		if math.Float64bits(got[i]) != math.Float64bits(v) {
			t.Errorf("%s: the gradient of %s, element %d, is %v, %v at once", what, p.Name, i, got[i], v)
			return
		}
	}
}
