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
	Counted   Counted        // the rows that are
	Positions *tensor.Tensor // I32 [N]: of each row in its document
	Docs      *tensor.Tensor // I32 [N], or nil: rows of different documents do not see one another
	Types     *tensor.Tensor // I32 [N], or nil: the part of its sequence that a row belongs to; nil is 0 everywhere
	Starts    *tensor.Tensor // I32 [B]: the first row of each sequence
	Classes   *tensor.Tensor // I32 [B], or nil: the label of each sequence; negative is not counted

	// Cache, of a pass of one sequence without gradients, holds the rows before these, and gets
	// these; nil where there are none.
	Cache *nn.Cache

	// Train says that the pass is one of training: what is random on purpose (dropout) is so
	// then. It depends on Seed and on the row's number in the run, or its sequence's, of which
	// First and FirstSequence (I64 [1]) are the batch's first.
	Train                bool
	Pass                 int // see Info.EvalPasses
	Seed                 uint64
	First, FirstSequence *tensor.Tensor
}

// Counted are the rows of a batch that have a target, as its owner knows them before it is
// computed; the zero value leaves them to the targets.
type Counted struct {
	Rows, Targets *tensor.Tensor // I32 [N]: the first N of them, ascending, and their targets
	N             int
}

// Labels are what the batch's rows are to predict.
func (b Batch) Labels() autograd.Labels {
	return autograd.Labels{Targets: b.Targets, Rows: b.Counted.Rows, Of: b.Counted.Targets, Count: b.Counted.N}
}

// Drop is x, of which elements are dropped as d says if the pass is one of training.
func (b Batch) Drop(t *autograd.Tape, d nn.Dropout, x *autograd.Var) *autograd.Var {
	if !b.Train {
		return x
	}
	return t.Dropout(x, d.Key(b.Seed), b.First, d.P)
}

// DropSequences is Drop of x with a row for each sequence.
func (b Batch) DropSequences(t *autograd.Tape, d nn.Dropout, x *autograd.Var) *autograd.Var {
	b.First = b.FirstSequence
	return b.Drop(t, d, x)
}

// Attention is p for the batch, with what d drops of the softmax if the pass is one of training.
func (b Batch) Attention(p tensor.AttentionParams, d nn.Dropout) tensor.AttentionParams {
	p.Batch, p.T = b.B, b.T
	if b.Train {
		p.Dropout, p.Key, p.First = d.P, d.Key(b.Seed), b.First
	}
	return p
}

// Model is a network on one device.
type Model interface {
	// Units are the parts, in the order in which they run.
	Units() []*nn.Unit
	// Forward is what unit i of Units computes of x, which the unit before it returned. The first is
	// given nil for x; the last adds to sums (F64 [Info.SumCount]), first the losses of what is
	// counted, then what Info says, and returns nil. Others may add to sums too. Run calls it.
	Forward(t *autograd.Tape, i int, x *autograd.Var, b Batch, sums *tensor.Tensor) *autograd.Var
	// Logits [B V] (F32) of row `last` of each sequence, or of its labels. The caller releases
	// it.
	Logits(t *autograd.Tape, batch Batch, last int) *tensor.Tensor
	Info() Info
}

// Task is what a model is trained to say.
type Task uint8

// The tasks.
const (
	Causal   Task = iota // of each row the token that follows it: Targets are one row ahead
	Masked               // of a row the token that the data hid there: Targets are of the row itself
	Classify             // of each sequence its label: Classes
)

// Buffered is a Model with tables that do not train.
type Buffered interface {
	// Buffers are where the model keeps its tables, F32, for another type to be put there.
	Buffers() []**tensor.Tensor
}

// Info is what others compute with.
type Info struct {
	Task         Task
	Vocab        int
	MaxPositions int
	Layers       int
	Hidden       int
	Heads        int
	HeadDim      int
	Tied         bool // the head is the embedding
	// Labels of a whole sequence that the model tells apart, where Task is Classify; else 0.
	Labels int
	// Bidirectional: rows see those after them, so that padding must be kept apart.
	Bidirectional bool
	// Sums names what Loss adds up besides the loss; what is told of each is its mean.
	Sums []string
	// EvalSums names further sums, of passes that do not train only.
	EvalSums []string
	// EvalPasses is how often a pass that does not train runs all units, each time with another
	// Batch.Pass; 0 is once.
	EvalPasses int
	// MatMulParams are the parameters that every token is multiplied by.
	MatMulParams int64
}

// SumCount is the length of Loss's sums: the loss, Sums, EvalSums, and with Labels 3 counts a
// label: rows that are it and were found to be, rows that were found to be it, rows that are it.
func (i Info) SumCount() int { return 1 + len(i.Sums) + len(i.EvalSums) + 3*i.Labels }

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
