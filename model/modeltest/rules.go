package modeltest

import (
	"math"
	"testing"

	"trireme/autograd"
	"trireme/internal/backend/naive"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// gathered has the values of all parameters. As package parallel does, it sets those of a unit
// before the unit runs, in forward and backward, and removes them afterwards.
type gathered map[*nn.Param]*tensor.Tensor

func (g gathered) BeforeForward(u *nn.Unit, _ *tensor.Tensor)  { g.set(u) }
func (g gathered) BeforeBackward(u *nn.Unit, _ *tensor.Tensor) { g.set(u) }
func (gathered) AfterForward(u *nn.Unit)                       { reshard(u) }
func (gathered) AfterBackward(u *nn.Unit)                      { reshard(u) }

func (g gathered) set(u *nn.Unit) {
	for _, ps := range [][]*nn.Param{u.Params, u.Shared} {
		for _, p := range ps {
			p.Value = g[p]
		}
	}
}

func reshard(u *nn.Unit) {
	for _, ps := range [][]*nn.Param{u.Params, u.Shared} {
		for _, p := range ps {
			p.Value = nil
		}
	}
}

// documents checks that the losses of a document do not depend on the tokens of another document in
// its sequence.
func documents(t *testing.T, f model.Family, config string) {
	t.Helper()
	t.Run("documents are independent", func(t *testing.T) {
		n := newNetwork(t, naive.New(), f, config, true, recomputation{})
		if n.m.Info().Task == model.Classify {
			t.Skip("classes belong to sequences")
		}
		b := n.rowBatch(true, false)
		docs, ids := tensor.Host[int32](b.Docs), tensor.Host[int32](b.IDs)
		for i, doc := range docs {
			if doc == 0 {
				tensor.Host[int32](b.Targets)[i] = -1
			}
		}
		want := n.evaluate(b)
		for i, doc := range docs {
			if doc == 0 {
				ids[i] = (ids[i] + 1) % int32(n.m.Info().Vocab)
			}
		}
		if got := n.evaluate(b); want == 0 || math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("the loss of the second documents is %v, and %v with other tokens in the first. try: Batch.Docs in attention", want, got)
		}
	})
}

// evaluate returns the loss in evaluation.
func (n *network) evaluate(b model.Batch) float64 {
	sums := n.zeros()
	defer sums.Release()
	model.Loss(n.m, autograd.NewTape(n.b, tensor.F64, false), b, sums)
	return tensor.Host[float64](sums)[0]
}

// dropoutNames checks that no two dropouts of a pass have one random stream.
func dropoutNames(t *testing.T, f model.Family, config string) {
	t.Helper()
	t.Run("dropout names", func(t *testing.T) {
		b := streams{naive.New(), map[tensor.RandKey]int{}}
		newNetwork(t, b, f, config, false, recomputation{}).loss(false)
		for key, n := range b.uses {
			if n > 1 {
				t.Errorf("%d dropouts have one random stream (%x). try: a unique name for each nn.NewDropout", n, key.Stream)
			}
		}
	})
}

// streams counts the dropouts per random stream.
type streams struct {
	tensor.Backend
	uses map[tensor.RandKey]int
}

func (s streams) Dropout(dst, x *tensor.Tensor, key tensor.RandKey, rows *tensor.Tensor, p float64) {
	s.uses[key]++
	s.Backend.Dropout(dst, x, key, rows, p)
}

func (s streams) Attention(o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	if p.Dropout > 0 {
		s.uses[p.Key]++
	}
	s.Backend.Attention(o, lse, q, k, v, docs, p)
}
