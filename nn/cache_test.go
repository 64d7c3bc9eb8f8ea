package nn_test

import (
	"slices"
	"testing"

	"trireme/autograd"
	"trireme/nn"
	"trireme/tensor"
)

// TestCache checks that decoding row by row gives the bits of attention over all rows, that layers
// are independent, and that all memory is freed.
func TestCache(t *testing.T) {
	const rows, begin, heads, kvHeads, e = 6, 3, 4, 2, 3
	for _, apart := range []bool{false, true} { // separate queries
		for _, window := range []int{0, 2} {
			b := newBed(t)
			p := tensor.AttentionParams{MaxSeqLen: rows, Heads: heads, KVHeads: kvHeads, E: e, Scale: 0.5, Causal: true, Window: window}
			attend := func(c *nn.KVCache, layer int, x *tensor.Tensor, p tensor.AttentionParams) []float64 {
				return b.forward(x, func(t *autograd.Tape, x *autograd.Var) *autograd.Var {
					if !apart {
						return c.Attend(t, layer, nil, p, x)
					}
					q := autograd.Const(x.Value.Cols(0, heads*e))
					return c.Attend(t, layer, nil, p, q, autograd.Const(x.Value.Cols(heads*e, (heads+2*kvHeads)*e)))
				})
			}
			layers := []*tensor.Tensor{b.random(rows, (heads+2*kvHeads)*e), b.random(rows, (heads+2*kvHeads)*e)}
			c := nn.NewKVCache(b.b, tensor.F64, 2, rows, kvHeads, e)
			got := make([][]float64, len(layers))
			done := 0
			pass := func(n int) {
				p := p
				p.Starts = b.b.New(tensor.Workspace, tensor.I32, 2)
				copy(tensor.Host[int32](p.Starts), []int32{0, int32(n)})
				defer p.Starts.Release()
				for i, x := range layers {
					got[i] = append(got[i], attend(c, i, x.RowRange(done, done+n), p)...)
				}
				done += n
			}
			c.At = b.b.New(tensor.Workspace, tensor.I32, 1)
			defer c.At.Release()
			tensor.Host[int32](c.At)[0] = 0
			pass(begin)
			for done < rows {
				tensor.Host[int32](c.At)[0] = int32(done)
				pass(1)
			}
			held := b.b.Meter().Read().LiveTotal
			c.Release()
			if freed, want := held-b.b.Meter().Read().LiveTotal, int64(len(layers)*rows*2*kvHeads*e*8); freed != want {
				t.Errorf("freed %d bytes, want %d", freed, want)
			}
			for i, x := range layers {
				p := p
				p.Starts = b.b.New(tensor.Workspace, tensor.I32, 2)
				copy(tensor.Host[int32](p.Starts), []int32{0, rows})
				if want := attend(nil, i, x, p); !slices.Equal(got[i], want) {
					t.Errorf("separate %v, window %d, layer %d: %v, want %v", apart, window, i, got[i], want)
				}
			}
		}
	}
}
