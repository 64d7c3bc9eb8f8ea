package freetransformer

import (
	"testing"

	"trireme/autograd"
	"trireme/internal/backend/naive"
	"trireme/model"
	"trireme/tensor"
)

// newModel returns a small F64 model with random weights.
func newModel(t *testing.T, config string) (*naive.Backend, *Model) {
	t.Helper()
	c, err := ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	b := naive.New()
	m, err := New(b, c, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range model.Params(m) {
		p.Value = b.New(tensor.Params, tensor.F64, p.Shape...)
		p.Fill(b, p.Value, 1, 0)
	}
	return b, m
}

// sequence returns a batch of one.
func sequence(b *naive.Backend, ids []int32) model.Batch {
	in, starts := b.New(tensor.Workspace, tensor.I32, len(ids)), b.New(tensor.Workspace, tensor.I32, 2)
	at, numbers := b.New(tensor.Workspace, tensor.I32, len(ids)), b.New(tensor.Workspace, tensor.I64, len(ids))
	b.Upload(in, tensor.AsBytes(ids))
	b.Upload(starts, tensor.AsBytes([]int32{0, int32(len(ids))}))
	for i := range ids {
		tensor.Host[int32](at)[i], tensor.Host[int64](numbers)[i] = int32(i), int64(i)
	}
	return model.Batch{IDs: in, Starts: starts, MaxSeqLen: len(ids), Positions: at, TokenKeys: numbers}
}

// logits returns the logits of row last after ids, with bits from s.
func logits(b *naive.Backend, m *Model, ids []int32, last int, s LatentSource) []float64 {
	out := m.LogitsFrom(autograd.NewTape(b, tensor.F64, false), sequence(b, ids), s, last)
	var v []float64
	for _, x := range tensor.Host[float32](out) {
		v = append(v, float64(x))
	}
	return v
}

func same(a, b []float64) bool {
	for i := range a {
		if d := a[i] - b[i]; d > 1e-9 || d < -1e-9 {
			return false
		}
	}
	return true
}

// Given the bits, the model is causal: logits do not depend on later tokens or later bits. The
// encoder is not causal.
func TestCausalButForTheEncoder(t *testing.T) {
	for _, mode := range []string{Exact, Factored} {
		b, m := newModel(t, small+`, "latent_mode": "`+mode+`"}`)
		ids := []int32{3, 1, 4, 1, 5, 9, 2, 6}
		changed := []int32{3, 1, 4, 1, 5, 9, 2, 29}
		signs := b.New(tensor.Workspace, tensor.F32, len(ids), 5)
		for i := range tensor.Host[float32](signs) {
			tensor.Host[float32](signs)[i] = float32(i%3%2*2 - 1)
		}
		given := LatentSource{Signs: signs}
		before, last := logits(b, m, ids, 6, given), logits(b, m, ids, 7, given)
		if !same(before, logits(b, m, changed, 6, given)) {
			t.Errorf("%s: row 6 depends on the token of row 7", mode)
		}
		if same(last, logits(b, m, changed, 7, given)) {
			t.Errorf("%s: row 7 does not depend on its own token", mode)
		}
		for h := range 5 {
			tensor.Host[float32](signs)[7*5+h] *= -1
		}
		if !same(before, logits(b, m, ids, 6, given)) {
			t.Errorf("%s: row 6 depends on the bits of row 7", mode)
		}
		if same(last, logits(b, m, ids, 7, given)) {
			t.Errorf("%s: row 7 does not depend on its bits", mode)
		}
		drawn := func(ids []int32) []float32 {
			out := b.New(tensor.Workspace, tensor.F32, len(ids), 5)
			logits(b, m, ids, 0, LatentSource{Encode: true, Drawn: out})
			return tensor.Host[float32](out)
		}
		differ := false
		for last := range int32(30) {
			changed[7] = last
			for i, v := range drawn(changed)[:7*5] {
				differ = differ || v != drawn(ids)[i]
			}
		}
		if !differ {
			t.Errorf("%s: the encoder's bits of rows 0 to 6 do not depend on row 7", mode)
		}
	}
}

// TestLoss: the loss is the cross-entropy plus the divergence above free_bits, if any. The bound
// adds the full divergence.
func TestLoss(t *testing.T) {
	sums := func(config string, train bool) []float64 {
		b, m := newModel(t, config)
		targets := b.New(tensor.Workspace, tensor.I32, 8)
		batch := sequence(b, []int32{3, 1, 4, 1, 5, 9, 2, 6})
		batch.Targets, batch.Train = targets, train
		b.Upload(targets, tensor.AsBytes([]int32{1, 4, 1, 5, 9, 2, 6, -100}))
		out := b.New(tensor.Workspace, tensor.F64, m.Info().SumCount())
		b.Fill(out, 0)
		model.Loss(m, autograd.NewTape(b, tensor.F64, false), batch, out)
		return tensor.Host[float64](out)
	}
	const ln2 = 0.6931471805599453
	none, all := sums(small+`, "free_bits": 0}`, true), sums(small+`, "free_bits": 5}`, false)
	if !same(none[sumLoss:][:1], []float64{none[sumCrossEntropy] + ln2*none[sumKLBits]}) || none[sumKLBits] <= 0 {
		t.Errorf("free_bits 0: %v", none)
	}
	if all[sumLoss] != all[sumCrossEntropy] || all[sumKLBits] != none[sumKLBits] {
		t.Errorf("free_bits above all: %v, 0: %v", all, none)
	}
	if !same(none[sumBound:][:1], none[sumLoss:][:1]) || none[sumPrior] != 0 || all[sumPrior] <= 0 || all[sumPrior] == all[sumCrossEntropy] {
		t.Errorf("training: %v, evaluation: %v", none, all)
	}
}
