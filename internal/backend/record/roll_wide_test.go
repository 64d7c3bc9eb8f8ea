package record

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"trireme/internal/backend/naive"
	"trireme/tensor"
)

// updates records the end of a step: the parameters of each layer are updated and copied, from gradients that
// layers have in memory of activations. gap is the distance between layers' parameters.
func updates(t *testing.T, b *Backend, layers, n, gap int) (rec *Recording, state []*tensor.Tensor) {
	t.Helper()
	size := (layers-1)*(n+gap) + n
	for _, dt := range []tensor.DType{tensor.F32, tensor.F32, tensor.F32, tensor.F32, tensor.BF16} {
		state = append(state, b.New(tensor.Params, dt, size))
	}
	ends, hyper, scalars := b.New(tensor.Workspace, tensor.I64, 2), b.New(tensor.Workspace, tensor.F64, 2, 4), b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
	b.Upload(ends, tensor.AsBytes([]int64{int64(n / 3), int64(n)}))
	b.Upload(hyper, tensor.AsBytes([]float64{0.1, 0.2, 0.1, 0.1, 0.3, 0, 0.1, 0.1}))
	b.Upload(scalars, tensor.AsBytes([]float64{2, 1, 0.5, 1, 12}))
	sum := b.New(tensor.Workspace, tensor.I64, tensor.ExactWords)
	state = append(state, sum)
	rec, err := b.Record(true, func() error {
		for l := range layers {
			b.ExactSquares(sum, state[3].Flat(l*(n+gap), l*(n+gap)+n), nil)
		}
		at := func(i, l int) *tensor.Tensor { return state[i].Flat(l*(n+gap), l*(n+gap)+n) }
		for l := range layers {
			b.Update(tensor.AdamW{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}, at(0, l), []*tensor.Tensor{at(1, l), at(2, l)}, at(3, l), ends, hyper, scalars)
		}
		for l := range layers {
			b.Copy(at(4, l), at(0, l))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec, state
}

// Updates of neighboring parameters are one operation with the same bits; others stay a loop.
func TestWide(t *testing.T) {
	for _, gap := range []int{0, 1} {
		b := New(naive.New())
		rec, state := updates(t, b, 6, 2*tensor.SumBlock, gap)
		r := rec.Roll()
		if len(r.Nodes) != 3 {
			t.Fatalf("%d nodes:\n%v", len(r.Nodes), r)
		}
		for _, n := range r.Nodes {
			if (n.Loop == nil) != (gap == 0) {
				t.Errorf("gap %d:\n%v", gap, r)
			}
		}
		if text := r.String(); gap == 0 && !strings.Contains(text, "p:%2 float32[6 128]") {
			t.Errorf("no parts in\n%s", text)
		}
		var bits [2][]byte
		for i, p := range []*Rolled{rec.straight(), r} {
			for k, s := range state {
				b.Fill(s, 0.5+float64(k))
			}
			if err := b.ReplayRolled(context.Background(), p, rec); err != nil {
				t.Fatal(err)
			}
			for _, s := range state {
				x := make([]byte, s.Bytes())
				b.Download(x, s)
				bits[i] = append(bits[i], x...)
			}
		}
		if !bytes.Equal(bits[0], bits[1]) {
			t.Errorf("gap %d: other bits", gap)
		}
	}
}

// A gradient in the memory of an activation is dead after the iteration that writes it, unless something
// reads the stack later.
func TestDead(t *testing.T) {
	for _, later := range []bool{false, true} {
		b := New(naive.New())
		sum := b.New(tensor.Params, tensor.F32, 4)
		rec, err := b.Record(true, func() error {
			var kept []*tensor.Tensor
			for range 6 {
				x := b.New(tensor.Activations, tensor.F32, 4)
				b.Fill(x, 1)
				b.Add(x, x, sum)
				kept = append(kept, x)
			}
			for l := 5; l >= 0; l-- {
				b.GELU(kept[l], kept[l], true)
				b.AddScaled(sum, kept[l], 2)
			}
			if later {
				b.AddScaled(sum, kept[3], 2)
			}
			for _, x := range kept {
				x.Release()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		dead, written := 0, 0
		for _, n := range rec.Roll().Nodes {
			if n.Loop == nil {
				continue
			}
			for _, x := range n.Loop.Locals {
				if x.Kind == Slice && x.Write {
					written++
					if x.Dead {
						dead++
					}
				}
			}
		}
		if written != 2 || (dead == 1) == later || dead > 1 {
			t.Errorf("read later %v: %d of %d slices are dead\n%v", later, dead, written, rec.Roll())
		}
	}
}
