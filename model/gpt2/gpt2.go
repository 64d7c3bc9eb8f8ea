package gpt2

import (
	"fmt"

	"trireme/autograd"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// GPT2 is the network. N rows are B sequences; D n_embd, H heads, E head size, F inner size, P
// positions, V vocabulary.
type GPT2 struct {
	cfg       Config
	tokens    *nn.Embedding // [V D]
	positions *nn.Embedding // [P D]
	drop      nn.Dropout
	blocks    []*block
	norm      *nn.LayerNorm
	head      *nn.Param // [V D]; the embedding's if tied
	units     []*nn.Unit
}

// block is one decoder layer.
type block struct {
	layer    int
	cfg      Config
	unit     *nn.Unit
	tanh     bool // GELU's tanh approximation
	scale    float64
	attnNorm *nn.LayerNorm
	qkv, out *nn.Conv1D // [D 3D], [D D]
	attnDrop nn.Dropout
	outDrop  nn.Dropout
	mlpNorm  *nn.LayerNorm
	up, down *nn.Conv1D // [D F], [F D]
	mlpDrop  nn.Dropout
}

// New returns the network for sequences of up to positions rows; 0 is the model's maximum.
func New(_ tensor.Backend, c Config, positions int) (*GPT2, error) {
	if positions > c.NPositions {
		return nil, model.TooLong(positions, c.NPositions, "n_positions")
	}
	std := nn.Init{Kind: nn.Normal, Std: c.InitializerRange}
	m := &GPT2{
		cfg:       c,
		tokens:    nn.NewEmbedding(prefix+"wte", c.VocabSize, c.NEmbd, std),
		positions: nn.NewEmbedding(prefix+"wpe", c.NPositions, c.NEmbd, std),
		drop:      nn.NewDropout(prefix+"drop", c.EmbdPDrop),
		norm:      nn.NewLayerNorm(prefix+"ln_f", c.NEmbd, c.LayerNormEpsilon),
	}
	m.units = append(m.units, &nn.Unit{Name: "embeddings", Params: []*nn.Param{m.tokens.Weight, m.positions.Weight}})
	for i := range c.NLayer {
		l, err := newBlock(c, i, std)
		if err != nil {
			return nil, err
		}
		m.blocks = append(m.blocks, l)
		m.units = append(m.units, l.unit)
	}
	last := &nn.Unit{Name: "lm_head", Params: m.norm.Params()}
	if c.TieWordEmbeddings {
		m.head = m.tokens.Weight
		m.head.Duplicates = []string{"lm_head.weight"}
		last.Shared = []*nn.Param{m.head}
	} else {
		m.head = nn.NewParam("lm_head.weight", std, c.VocabSize, c.NEmbd)
		last.Params = append(last.Params, m.head)
	}
	m.units = append(m.units, last)
	return m, nil
}

// newBlock scales the deviation of residual projections by 1/sqrt(their number) (Radford et al.
// 2019, section 2.3).
func newBlock(c Config, layer int, std nn.Init) (*block, error) {
	tanh, err := model.GELU(c.ActivationFunction)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%sh.%d.", prefix, layer)
	residual := nn.Init{Kind: nn.Normal, Std: nn.ScaledStd(std.Std, c.NLayer)}
	d := c.NEmbd
	l := &block{
		layer: layer, cfg: c, tanh: tanh, scale: c.scale(layer),
		attnNorm: nn.NewLayerNorm(name+"ln_1", d, c.LayerNormEpsilon),
		qkv:      nn.NewConv1D(name+"attn.c_attn", d, 3*d, std),
		out:      nn.NewConv1D(name+"attn.c_proj", d, d, residual),
		attnDrop: nn.NewDropout(name+"attn.attn_dropout", c.AttnPDrop),
		outDrop:  nn.NewDropout(name+"attn.resid_dropout", c.ResidPDrop),
		mlpNorm:  nn.NewLayerNorm(name+"ln_2", d, c.LayerNormEpsilon),
		up:       nn.NewConv1D(name+"mlp.c_fc", d, c.NInner, std),
		down:     nn.NewConv1D(name+"mlp.c_proj", c.NInner, d, residual),
		mlpDrop:  nn.NewDropout(name+"mlp.dropout", c.ResidPDrop),
	}
	l.unit = &nn.Unit{Name: fmt.Sprintf("h.%d", layer)}
	for _, ps := range [][]*nn.Param{l.attnNorm.Params(), l.qkv.Params(), l.out.Params(), l.mlpNorm.Params(), l.up.Params(), l.down.Params()} {
		l.unit.Params = append(l.unit.Params, ps...)
	}
	return l, nil
}

// forward maps x [N D] to [N D].
func (l *block) forward(t *autograd.Tape, x *autograd.Var, b model.Batch) *autograd.Var {
	attn := l.unit.Part(t, nn.Attention, func(t *autograd.Tape, in ...*autograd.Var) *autograd.Var {
		return l.attention(t, in[0], b)
	}, l.attnNorm.Forward(t, x))
	y, x := l.mlpNorm.AddForward(t, attn, x)
	return t.Add(x, l.unit.Part(t, nn.MLP, func(t *autograd.Tape, in ...*autograd.Var) *autograd.Var {
		return b.Drop(t, l.mlpDrop, l.down.Forward(t, t.GELU(l.up.Forward(t, in[0]), l.tanh)))
	}, y))
}

// attention maps normalized x [N D] to [N D].
func (l *block) attention(t *autograd.Tape, x *autograd.Var, b model.Batch) *autograd.Var {
	c := l.cfg
	attn := b.Cache.Attend(t, l.layer, b.Docs, b.Attention(tensor.AttentionParams{
		Heads: c.NHead, KVHeads: c.NHead, E: c.NEmbd / c.NHead, Scale: l.scale, Causal: true,
	}, l.attnDrop), l.qkv.Forward(t, x))
	return b.Drop(t, l.outDrop, l.out.Forward(t, attn))
}

// Forward runs the embeddings, a layer, or the head with the summed cross-entropy.
func (m *GPT2) Forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch, sums *tensor.Tensor) *autograd.Var {
	switch {
	case i == 0:
		return b.Drop(t, m.drop, t.Add(m.tokens.Forward(t, b.IDs), m.positions.Forward(t, b.Positions)))
	case i <= len(m.blocks):
		return m.blocks[i-1].forward(t, x, b)
	}
	t.LinearCrossEntropy(sums.Flat(0, 1), m.norm.Forward(t, x), &m.head.Var, nil, b.Labels())
	return nil
}

// Units are the embeddings, the layers, and the final norm with the head.
func (m *GPT2) Units() []*nn.Unit { return m.units }

func (m *GPT2) Logits(t *autograd.Tape, b model.Batch, rows ...int) *tensor.Tensor {
	logits := t.Backend().New(tensor.Logits, tensor.F32, len(rows), m.cfg.VocabSize)
	model.RunWithHead(m, t, b, func(t *autograd.Tape, x *autograd.Var) {
		model.RowLogits(t.Backend(), logits, m.norm.Forward(t, x).Value, m.head, nil, rows)
	})
	return logits
}

// Info counts the head and all projections, not the embeddings, as matmul parameters.
func (m *GPT2) Info() model.Info {
	c := m.cfg
	n, head := model.CountParams(m)-int64(c.NPositions)*int64(c.NEmbd), int64(c.VocabSize)*int64(c.NEmbd)
	if !c.TieWordEmbeddings {
		n -= head
	}
	return model.Info{
		Vocab: c.VocabSize, MaxPositions: c.NPositions, Layers: c.NLayer, Hidden: c.NEmbd,
		Heads: c.NHead, KVHeads: c.NHead, HeadDim: c.NEmbd / c.NHead, Tied: c.TieWordEmbeddings, MatMulParams: n - head, HeadParams: head,
		Attention: []model.Attention{{Layers: c.NLayer, Causal: true}},
	}
}
