package model

import (
	"trireme/autograd"
	"trireme/nn"
	"trireme/tensor"
)

// Batch is one micro-batch on a backend: N rows, which are B sequences end to end. Rows after the
// last sequence, if any, count for nothing.
type Batch struct {
	IDs       *tensor.Tensor // I32 [N]
	Starts    *tensor.Tensor // I32 [B+1]: the first row of each sequence, and the end of the last
	MaxSeqLen int            // rows of a sequence at most, the same for all batches
	Targets   *tensor.Tensor // I32 [N]: what each row is to predict; negative is not counted
	Labeled   LabeledRows    // the rows that are
	Positions *tensor.Tensor // I32 [N]: of each row in its document
	Docs      *tensor.Tensor // I32 [N], or nil: rows of different documents of a sequence do not see one another
	Types     *tensor.Tensor // I32 [N], or nil: the part of its sequence that a row belongs to; nil is 0 everywhere
	Classes   *tensor.Tensor // I32 [B], or nil: the label of each sequence; negative is not counted

	// Cache, of a pass of one sequence without gradients, holds the rows before these, and gets
	// these; nil where there are none.
	Cache *nn.KVCache

	// Train says that the pass is one of training: what is random on purpose (dropout) is so
	// then. It depends on Seed and on the row's number in the run, or its sequence's.
	Train      bool
	Pass       int // see Info.EvalPasses
	Seed       uint64
	TokenKeys  *tensor.Tensor // I64 [N]: of each row; those of a sequence follow one another
	SampleKeys *tensor.Tensor // I64 [B]: of each sequence
}

// Sequences is B.
func (b Batch) Sequences() int { return b.Starts.Elems() - 1 }

// LabeledRows are the rows of a batch that have a target, as its owner knows them before it is
// computed; the zero value leaves them to the targets.
type LabeledRows struct {
	Rows, Targets *tensor.Tensor // I32 [N]: the first N of them, ascending, and their targets
	N             int
}

// Labels are what the batch's rows are to predict.
func (b Batch) Labels() autograd.Labels {
	return autograd.Labels{Targets: b.Targets, Rows: b.Labeled.Rows, RowTargets: b.Labeled.Targets, Count: b.Labeled.N}
}

// Drop is x, of which elements are dropped as d says if the pass is one of training.
func (b Batch) Drop(t *autograd.Tape, d nn.Dropout, x *autograd.Var) *autograd.Var {
	if !b.Train {
		return x
	}
	return t.Dropout(x, d.Key(b.Seed), b.TokenKeys, d.P)
}

// DropSequences is Drop of x with a row for each sequence.
func (b Batch) DropSequences(t *autograd.Tape, d nn.Dropout, x *autograd.Var) *autograd.Var {
	b.TokenKeys = b.SampleKeys
	return b.Drop(t, d, x)
}

// Attention is p for the batch, with what d drops of the softmax if the pass is one of training.
func (b Batch) Attention(p tensor.AttentionParams, d nn.Dropout) tensor.AttentionParams {
	p.Starts, p.MaxSeqLen = b.Starts, b.MaxSeqLen
	if b.Train {
		p.Dropout, p.Key, p.Rows = d.P, d.Key(b.Seed), b.TokenKeys
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
	// Logits [len(rows) V] (F32) of rows of the batch, or [B C] of its sequences' labels. The
	// caller releases it.
	Logits(t *autograd.Tape, batch Batch, rows ...int) *tensor.Tensor
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

// HasBuffers is a Model with tables that do not train.
type HasBuffers interface {
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
	// Sums names what Loss adds up besides the loss; what is told of each is its mean.
	Sums []string
	// EvalSums names further sums, of passes that do not train only.
	EvalSums []string
	// EvalPasses is how often a pass that does not train runs all units, each time with another
	// Batch.Pass; 0 is once.
	EvalPasses int
	// MatMulParams are the parameters that every token is multiplied by, HeadParams those that
	// only tokens with a label are.
	MatMulParams, HeadParams int64
	// Attention is what the layers see, Layers in all.
	Attention []Attention
	// spared is what FLOPs leaves out: see Frozen.
	spared struct{ token, label, pair float64 }
}

// SumCount is the length of Loss's sums: the loss, Sums, EvalSums, and with Labels 3 counts a
// label: rows that are it and were found to be, rows that were found to be it, rows that are it.
func (i Info) SumCount() int { return 1 + len(i.Sums) + len(i.EvalSums) + 3*i.Labels }

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
