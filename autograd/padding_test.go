package autograd

import (
	"testing"

	"trireme/internal/backend/naive"
	"trireme/tensor"
)

// The padding row of an embedding gets no gradient from inputs, but keeps that of a tied head, as
// with padding_idx in PyTorch.
func TestEmbeddingPadding(t *testing.T) {
	const vocab, dim, padding = 4, 2, 1
	gradient := func(row int, tied bool) []float64 {
		b := naive.New()
		values := func(shape ...int) *tensor.Tensor {
			x := b.New(tensor.Params, tensor.F64, shape...)
			for i := range x.Elems() {
				tensor.Host[float64](x)[i] = 0.3*float64(i) - 1
			}
			return x
		}
		table, head := &Var{Value: values(vocab, dim)}, &Var{Value: values(vocab, dim)}
		grad := b.New(tensor.Grads, tensor.F64, vocab, dim)
		written := false
		table.SetGradDst(func() (*tensor.Tensor, bool) {
			defer func() { written = true }()
			return grad, written
		})
		if tied {
			head = table
		}
		ids, targets := b.New(tensor.Workspace, tensor.I32, 3), b.New(tensor.Workspace, tensor.I32, 3)
		copy(tensor.Host[int32](ids), []int32{padding, 3, padding})
		copy(tensor.Host[int32](targets), []int32{2, 0, padding})
		loss := b.New(tensor.Workspace, tensor.F64, 1)
		b.Fill(loss, 0)
		tape := NewTape(b, tensor.F64, true)
		tape.LinearCrossEntropy(loss, tape.Embedding(table, ids, row), head, nil, Labels{Targets: targets})
		tape.Backward()
		return tensor.Host[float64](grad)
	}
	of := func(g []float64, row int) []float64 { return g[row*dim : (row+1)*dim] }
	for _, tied := range []bool{false, true} {
		plain, padded := gradient(tensor.NoPadding, tied), gradient(padding, tied)
		for row := range vocab {
			for i, want := range of(plain, row) {
				got := of(padded, row)[i]
				if row != padding && got != want || row == padding && (got == want || (got != 0) != tied) {
					t.Errorf("tied %t: row %d, element %d: gradient %v, without padding %v", tied, row, i, got, want)
				}
			}
		}
	}
}
