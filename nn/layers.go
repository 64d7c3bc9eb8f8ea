package nn

import (
	"trireme/autograd"
	"trireme/tensor"
)

// Linear is one or more projections [O_i D] of one input, concatenated in the result.
type Linear struct {
	Weights []*Param
	Biases  []*Param // empty, or one [O_i] per weight
}

// NewLinear is a single projection with parameter name + ".weight".
func NewLinear(name string, in, out int, init Init) *Linear {
	w := NewParam(name+".weight", init, out, in)
	w.Hidden, w.Quantizable = true, true
	return &Linear{Weights: []*Param{w}}
}

// WithBias adds a bias to each projection, named like its weight.
func (l *Linear) WithBias() *Linear {
	for _, w := range l.Weights {
		base := w.Name[:len(w.Name)-len("weight")]
		l.Biases = append(l.Biases, NewParam(base+"bias", Init{Kind: Zeros}, w.Shape[0]))
	}
	return l
}

// NewFusedLinear fuses projections of one input into one product.
func NewFusedLinear(ls ...*Linear) *Linear {
	all := &Linear{}
	for _, l := range ls {
		all.Weights = append(all.Weights, l.Weights...)
		all.Biases = append(all.Biases, l.Biases...)
	}
	for _, ps := range [][]*Param{all.Weights, all.Biases} {
		for i := 1; i < len(ps); i++ {
			ps[i].FusedAfter = ps[i-1]
		}
	}
	return all
}

// Params lists weights, then biases, so that each kind is contiguous in memory.
func (l *Linear) Params() []*Param { return append(append([]*Param{}, l.Weights...), l.Biases...) }

// Forward maps x [N D] to [N sum O_i].
func (l *Linear) Forward(t *autograd.Tape, x *autograd.Var) *autograd.Var {
	return t.Linear(x, vars(l.Weights), vars(l.Biases))
}

// RMSNorm has a gain [D].
type RMSNorm struct {
	Weight *Param
	Eps    float64
}

// NewRMSNorm initializes the gain to 1.
func NewRMSNorm(name string, dim int, eps float64) *RMSNorm {
	return &RMSNorm{NewParam(name+".weight", Init{Kind: Ones}, dim), eps}
}

// Forward normalizes x.
func (n *RMSNorm) Forward(t *autograd.Tape, x *autograd.Var) *autograd.Var {
	return t.RMSNorm(x, n.Weight.operand(), n.Eps)
}

// AddForward returns the normalized x+res, and x+res.
func (n *RMSNorm) AddForward(t *autograd.Tape, x, res *autograd.Var) (y, sum *autograd.Var) {
	return t.AddRMSNorm(x, res, n.Weight.operand(), n.Eps)
}

// HeadNorms are RMSNorms of query heads and key heads, each with a gain [E] for all its heads.
type HeadNorms struct {
	Q, K *Param
	Eps  float64
}

// NewHeadNorms initializes the gains to 1.
func NewHeadNorms(q, k string, headDim int, eps float64) *HeadNorms {
	ones := Init{Kind: Ones}
	return &HeadNorms{NewParam(q+".weight", ones, headDim), NewParam(k+".weight", ones, headDim), eps}
}

// Forward normalizes queries and keys of qkv [N (heads+2 kvHeads)*E].
func (n *HeadNorms) Forward(t *autograd.Tape, qkv *autograd.Var, heads, kvHeads int) *autograd.Var {
	return t.HeadRMSNorm(qkv, n.Q.operand(), n.K.operand(), heads, kvHeads, n.Q.Shape[0], n.Eps)
}

// LayerNorm has a gain and a shift [D].
type LayerNorm struct {
	Weight, Bias *Param
	Eps          float64
}

// NewLayerNorm initializes the gain to 1 and the shift to 0.
func NewLayerNorm(name string, dim int, eps float64) *LayerNorm {
	return &LayerNorm{NewParam(name+".weight", Init{Kind: Ones}, dim), NewParam(name+".bias", Init{Kind: Zeros}, dim), eps}
}

func (n *LayerNorm) Params() []*Param { return []*Param{n.Weight, n.Bias} }

// Forward normalizes x.
func (n *LayerNorm) Forward(t *autograd.Tape, x *autograd.Var) *autograd.Var {
	return t.LayerNorm(x, n.Weight.operand(), n.Bias.operand(), n.Eps)
}

// AddForward returns the normalized x+res, and x+res.
func (n *LayerNorm) AddForward(t *autograd.Tape, x, res *autograd.Var) (y, sum *autograd.Var) {
	return t.AddLayerNorm(x, res, n.Weight.operand(), n.Bias.operand(), n.Eps)
}

// Conv1D is a projection with a transposed weight [D O] and a bias, as in GPT-2.
type Conv1D struct{ Weight, Bias *Param }

// NewConv1D has the parameters name + ".weight" and name + ".bias".
func NewConv1D(name string, in, out int, init Init) *Conv1D {
	w := NewParam(name+".weight", init, in, out)
	w.Hidden = true
	return &Conv1D{w, NewParam(name+".bias", Init{Kind: Zeros}, out)}
}

func (c *Conv1D) Params() []*Param { return []*Param{c.Weight, c.Bias} }

// Forward maps x [N D] to [N O].
func (c *Conv1D) Forward(t *autograd.Tape, x *autograd.Var) *autograd.Var {
	return t.LinearT(x, c.Weight.operand(), c.Bias.operand())
}

// Embedding is a table [V D].
type Embedding struct {
	Weight  *Param
	padding int // row without gradient from inputs, or tensor.NoPadding
}

// NewEmbedding has the parameter name + ".weight".
func NewEmbedding(name string, vocab, dim int, init Init) *Embedding {
	return &Embedding{NewParam(name+".weight", init, vocab, dim), tensor.NoPadding}
}

// WithPadding sets the padding row, like padding_idx of PyTorch's nn.Embedding: it is initialized
// to 0 and gets no gradient from inputs, only from a tied head. A negative id counts from the end;
// nil or an id out of range means none.
func (e *Embedding) WithPadding(id *int) *Embedding {
	if id == nil {
		return e
	}
	row, vocab, dim := *id, e.Weight.Shape[0], e.Weight.Shape[1]
	if row < 0 {
		row += vocab
	}
	if row < 0 || row >= vocab {
		return e
	}
	e.padding = row
	e.Weight.Init.Zero = [2]int{row * dim, (row + 1) * dim}
	return e
}

// Forward looks up ids (I32 [N]).
func (e *Embedding) Forward(t *autograd.Tape, ids *tensor.Tensor) *autograd.Var {
	return t.Embedding(e.Weight.operand(), ids, e.padding)
}
