package model

import (
	"trireme/nn"
	"trireme/tensor"
)

// RowLogits writes to logits [len(rows) V] those of some rows of y [N D], of which head [V D] makes
// logits, with a bias [V] or nil.
func RowLogits(be tensor.Backend, logits, y *tensor.Tensor, head, bias *nn.Param, rows []int) {
	for i, row := range rows {
		be.MatMul(logits.RowRange(i, i+1), y.RowRange(row, row+1), head.Value, tensor.MatMulOp{TransB: true})
	}
	if bias != nil {
		be.AddBias(logits, logits, bias.Value)
	}
}
