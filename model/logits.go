package model

import (
	"trireme/nn"
	"trireme/tensor"
)

// RowLogits computes the logits [len(rows) V] of some rows of y [N D] with head [V D] and bias [V],
// which may be nil. rows are an input of a recorded program. A row's logits do not depend on the
// other rows.
func RowLogits(be tensor.Backend, logits, y *tensor.Tensor, head, bias *nn.Param, rows []int) {
	ids, selected := be.New(tensor.Workspace, tensor.I32, len(rows)), be.New(tensor.Workspace, y.DType(), len(rows), y.Width())
	defer ids.Release()
	defer selected.Release()
	at := make([]int32, len(rows))
	for i, row := range rows {
		at[i] = int32(row)
	}
	be.Upload(ids, tensor.AsBytes(at))
	be.GatherRows(selected, y, ids)
	for i := range rows {
		head.Project(be, logits.RowRange(i, i+1), selected.RowRange(i, i+1))
	}
	if bias != nil {
		be.AddBias(logits, logits, bias.Value)
	}
}
