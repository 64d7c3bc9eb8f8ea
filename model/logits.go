package model

import (
	"trireme/nn"
	"trireme/tensor"
)

// RowLogits computes the logits [len(rows) V] of some rows of y [N D] with head [V D] and bias [V],
// which may be nil.
func RowLogits(be tensor.Backend, logits, y *tensor.Tensor, head, bias *nn.Param, rows []int) {
	for i, row := range rows {
		be.MatMul(logits.RowRange(i, i+1), y.RowRange(row, row+1), head.Value, tensor.MatMulOp{TransB: true})
	}
	if bias != nil {
		be.AddBias(logits, logits, bias.Value)
	}
}
