package model

import (
	"trireme/autograd"
	"trireme/nn"
	"trireme/tensor"
)

// Batch is one micro-batch on a backend: N rows (tokens) in B sequences, end to end. Rows after the
// last sequence are ignored.
type Batch struct {
	IDs       *tensor.Tensor // I32 [N]
	Starts    *tensor.Tensor // I32 [B+1]: first row of each sequence, and the end of the last
	MaxSeqLen int            // maximum length of a sequence, the same for all batches
	SeqLen    int            // length of every sequence if all N rows are in sequences of one length; else 0
	Targets   *tensor.Tensor // I32 [N]: labels; negative is ignored
	Labeled   LabeledRows    // the rows with labels
	Positions *tensor.Tensor // I32 [N]: position in the document
	Docs      *tensor.Tensor // I32 [N], or nil: document IDs; attention does not cross documents
	Types     *tensor.Tensor // I32 [N], or nil: token types; nil is 0
	Classes   *tensor.Tensor // I32 [B], or nil: label of each sequence; negative is ignored

	// Cache is the KV cache of earlier rows, for inference on one sequence; nil for none. The pass
	// writes keys and values of its rows.
	Cache *nn.KVCache

	// Train enables dropout and other randomness, which is a function of Seed and TokenKeys or
	// SampleKeys.
	Train      bool
	Pass       int // see Info.EvalPasses
	Seed       uint64
	TokenKeys  *tensor.Tensor // I64 [N]: random key of each row; consecutive within a sequence
	SampleKeys *tensor.Tensor // I64 [B]: random key of each sequence
}

// Sequences returns B.
func (b Batch) Sequences() int { return b.Starts.Elems() - 1 }

// LabeledRows lists the rows with labels, if known on the host; the zero value leaves it to
// Targets.
type LabeledRows struct {
	Rows, Targets *tensor.Tensor // I32: the first N are the rows, ascending, and their labels
	N             int
}

// Labels returns the batch's labels.
func (b Batch) Labels() autograd.Labels {
	return autograd.Labels{Targets: b.Targets, Rows: b.Labeled.Rows, RowTargets: b.Labeled.Targets, Count: b.Labeled.N}
}

// Drop applies dropout d to x if Train is set.
func (b Batch) Drop(t *autograd.Tape, d nn.Dropout, x *autograd.Var) *autograd.Var {
	if !b.Train {
		return x
	}
	return t.Dropout(x, d.Key(b.Seed), b.TokenKeys, d.P)
}

// DropSequences is Drop for x with one row per sequence.
func (b Batch) DropSequences(t *autograd.Tape, d nn.Dropout, x *autograd.Var) *autograd.Var {
	b.TokenKeys = b.SampleKeys
	return b.Drop(t, d, x)
}

// Attention returns p for the batch, with dropout d of the softmax if Train is set.
func (b Batch) Attention(p tensor.AttentionParams, d nn.Dropout) tensor.AttentionParams {
	p.Starts, p.MaxSeqLen, p.SeqLen = b.Starts, b.MaxSeqLen, b.SeqLen
	if b.Train {
		p.Dropout, p.Key, p.Rows = d.P, d.Key(b.Seed), b.TokenKeys
	}
	return p
}

// Model is a network on one device.
type Model interface {
	// Units returns the units in execution order.
	Units() []*nn.Unit
	// Forward runs unit i on x, the output of the unit before (nil for the first). The last unit
	// returns nil and adds to sums (F64 [Info.SumCount]): the loss, then what Info lists. Other
	// units may add to sums too. Called by Run.
	Forward(t *autograd.Tape, i int, x *autograd.Var, b Batch, sums *tensor.Tensor) *autograd.Var
	// Logits returns the logits of rows [len(rows) V], or of the sequences [B C], as F32. The
	// caller releases it.
	Logits(t *autograd.Tape, batch Batch, rows ...int) *tensor.Tensor
	Info() Info
}

// Task is the training objective of a model.
type Task uint8

const (
	Causal   Task = iota // the next token: Targets are shifted by one row
	Masked               // masked tokens: Targets are of the same row
	Classify             // a label per sequence: Classes
)

// HasBuffers is a Model with buffers: tables that are not trained.
type HasBuffers interface {
	// Buffers returns pointers to the tables (F32), to replace them by ones of another dtype.
	Buffers() []**tensor.Tensor
}

// Info is a model's properties.
type Info struct {
	Task         Task
	Vocab        int
	MaxPositions int
	Layers       int
	Hidden       int
	Heads        int
	KVHeads      int // key and value heads
	HeadDim      int
	Tied         bool // the head shares the embedding
	// Labels is the number of classes of a Classify model, else 0.
	Labels int
	// Sums names what Loss accumulates after the loss; reports show means.
	Sums []string
	// EvalSums names further sums, only in evaluation.
	EvalSums []string
	// EvalPasses is the number of evaluation passes, each with another Batch.Pass; 0 is 1.
	EvalPasses int
	// MatMulParams counts parameters that every token is multiplied by, HeadParams those for tokens
	// with labels only.
	MatMulParams, HeadParams int64
	// Attention lists the attention layers.
	Attention []Attention
	// spared is subtracted by FLOPs: see Frozen.
	spared struct{ token, label, pair float64 }
}

// SumCount returns the length of Loss's sums: the loss, Sums, EvalSums and, for each class, the
// counts of true positives, predicted and actual sequences.
func (i Info) SumCount() int { return 1 + len(i.Sums) + len(i.EvalSums) + 3*i.Labels }

// Params lists every parameter once, in unit order.
func Params(m Model) []*nn.Param {
	var ps []*nn.Param
	for _, u := range m.Units() {
		ps = append(ps, u.Params...)
	}
	return ps
}

// CountParams returns the number of elements of all parameters.
func CountParams(m Model) int64 {
	n := int64(0)
	for _, p := range Params(m) {
		n += int64(p.Shape.Elems())
	}
	return n
}
