package model

import (
	"trireme/autograd"
	"trireme/nn"
	"trireme/tensor"
)

// Batch is one micro-batch on a backend: B sequences of T positions, N = B*T rows.
type Batch struct {
	B, T      int
	IDs       *tensor.Tensor // I32 [N]
	Targets   *tensor.Tensor // I32 [N]: what each row is to predict; negative is not counted
	Positions *tensor.Tensor // I32 [N], or nil: 0..T-1 in each sequence
	Docs      *tensor.Tensor // I32 [N], or nil: rows of different documents do not see one another
}

// Model is a network on one device.
type Model interface {
	// Units are the parts, in the order in which they run.
	Units() []*nn.Unit
	// Loss runs the model and adds the sum of the losses of counted rows to loss (F64 [1]).
	Loss(t *autograd.Tape, loss *tensor.Tensor, batch Batch)
	// Logits [B V] (F32) of row `last` of each sequence. The caller releases it.
	Logits(t *autograd.Tape, batch Batch, last int) *tensor.Tensor
	Info() Info
}

// Info is what others compute with.
type Info struct {
	Vocab        int
	MaxPositions int
	Layers       int
	Hidden       int
	Heads        int
	HeadDim      int
	Tied         bool // the head is the embedding
	// MatMulParams are the parameters that every token is multiplied by.
	MatMulParams int64
}

// FLOPsPerToken of a training step at sequences of t positions, as the PaLM paper counts them:
// 6 for each multiplied parameter, and 12*layers*heads*headDim*t for attention, masked half
// included.
func (i Info) FLOPsPerToken(t int) float64 {
	return 6*float64(i.MatMulParams) + 12*float64(i.Layers)*float64(i.Heads*i.HeadDim)*float64(t)
}

// Params lists every parameter once, in the order of the units.
func Params(m Model) []*nn.Param {
	var ps []*nn.Param
	for _, u := range m.Units() {
		ps = append(ps, u.Params...)
	}
	return ps
}

// CountParams is the number of elements of all parameters.
func CountParams(m Model) int64 {
	n := int64(0)
	for _, p := range Params(m) {
		n += int64(p.Shape.Elems())
	}
	return n
}
