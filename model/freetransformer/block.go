package freetransformer

import (
	"math"

	"trireme/autograd"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// block is a transformer layer, with self-attention or cross-attention. D hidden size, H heads, K
// key and value heads, E head size.
type block struct {
	cfg      Config
	unit     *nn.Unit
	index    int // layer index
	causal   bool
	attnNorm *nn.RMSNorm
	qkv      *nn.Linear // [(H+2K)*E D]: q and kv fused
	q, kv    *nn.Linear // [H*E D], [2K*E D]
	out      *nn.Linear // [D H*E]
	mlpNorm  *nn.RMSNorm
	mlp      *nn.GatedMLP
}

func newBlock(c Config, prefix string, index int, causal bool) *block {
	std := nn.Init{Kind: nn.Normal, Std: c.InitializerRange}
	linear := func(name string, in, out int) *nn.Linear { return nn.NewLinear(prefix+name, in, out, std) }
	d, f, h, k := c.HiddenSize, c.IntermediateSize, c.NumAttentionHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	l := &block{
		cfg: c, index: index, causal: causal,
		attnNorm: nn.NewRMSNorm(prefix+"input_layernorm", d, c.RMSNormEps),
		q:        linear("self_attn.q_proj", d, h),
		kv:       nn.NewFusedLinear(linear("self_attn.k_proj", d, k), linear("self_attn.v_proj", d, k)),
		out:      linear("self_attn.o_proj", h, d),
		mlpNorm:  nn.NewRMSNorm(prefix+"post_attention_layernorm", d, c.RMSNormEps),
		mlp:      nn.NewGatedMLP(prefix+"mlp", d, f, false, std),
	}
	l.qkv = nn.NewFusedLinear(l.q, l.kv)
	return l
}

func (l *block) params() []*nn.Param {
	ps := append([]*nn.Param{l.attnNorm.Weight}, l.qkv.Params()...)
	ps = append(append(ps, l.out.Params()...), l.mlpNorm.Weight)
	return append(ps, l.mlp.Params()...)
}

func (l *block) attention(b model.Batch) tensor.AttentionParams {
	c := l.cfg
	return tensor.AttentionParams{
		Starts: b.Starts, MaxSeqLen: b.MaxSeqLen, SeqLen: b.SeqLen, Heads: c.NumAttentionHeads, KVHeads: c.NumKeyValueHeads, E: c.HeadDim,
		Scale: 1 / math.Sqrt(float64(c.HeadDim)), Causal: l.causal,
	}
}

// forward maps x [N D] to [N D].
func (l *block) forward(t *autograd.Tape, x *autograd.Var, rope autograd.RopeTable, b model.Batch) *autograd.Var {
	c := l.cfg
	return l.rest(t, x, l.unit.Part(t, nn.Attention, func(t *autograd.Tape, in ...*autograd.Var) *autograd.Var {
		qkv := t.Rope(l.qkv.Forward(t, in[0]), (c.NumAttentionHeads+c.NumKeyValueHeads)*c.HeadDim, c.HeadDim, rope)
		return l.out.Forward(t, b.Cache.Attend(t, l.index, b.Docs, l.attention(b), qkv))
	}, l.attnNorm.Forward(t, x)))
}

// forwardCross is forward with keys and values from the rows of from [N D].
func (l *block) forwardCross(t *autograd.Tape, x, from *autograd.Var, rope autograd.RopeTable, b model.Batch) *autograd.Var {
	c := l.cfg
	return l.rest(t, x, l.unit.Part(t, nn.Attention, func(t *autograd.Tape, in ...*autograd.Var) *autograd.Var {
		q := t.Rope(l.q.Forward(t, in[0]), c.NumAttentionHeads*c.HeadDim, c.HeadDim, rope)
		kv := t.Rope(l.kv.Forward(t, in[1]), c.NumKeyValueHeads*c.HeadDim, c.HeadDim, rope)
		return l.out.Forward(t, b.Cache.Attend(t, l.index, b.Docs, l.attention(b), q, kv))
	}, l.attnNorm.Forward(t, x), l.attnNorm.Forward(t, from)))
}

// rest completes the layer after attention attn [N D]: the residual and the MLP.
func (l *block) rest(t *autograd.Tape, x, attn *autograd.Var) *autograd.Var {
	y, x := l.mlpNorm.AddForward(t, attn, x)
	return t.Add(x, l.unit.Part(t, nn.MLP, l.mlp.Forward, y))
}
