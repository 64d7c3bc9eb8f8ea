package llama

import (
	"fmt"
	"math"

	"trireme/autograd"
	"trireme/fault"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// Llama is the network. N rows are B sequences; D hidden size, H heads, K key and value heads, E
// head size, V vocabulary.
type Llama struct {
	cfg       Config
	rope      autograd.RopeTable
	positions int           // maximum sequence length
	embed     *nn.Embedding // [V D]
	blocks    []*block
	norm      *nn.RMSNorm
	head      *nn.Param // [V D]; the embedding's if tied
	units     []*nn.Unit
}

// block is one decoder layer.
type block struct {
	cfg       Config
	layer     int
	window    int // attention window; 0 is unlimited
	unit      *nn.Unit
	attnNorm  *nn.RMSNorm
	qkv, out  *nn.Linear    // [(H+2K)*E D], [D H*E]
	headNorms *nn.HeadNorms // nil for none
	attnDrop  nn.Dropout
	mlpNorm   *nn.RMSNorm
	mlp       *nn.GatedMLP
}

// New returns the network for sequences of up to positions rows; 0 is the model's maximum.
func New(b tensor.Backend, c Config, positions int) (*Llama, error) {
	rotary, err := c.Rotary()
	if err != nil {
		return nil, err
	}
	maxPositions := rotary.MaxPositions()
	if positions == 0 {
		positions = maxPositions
	}
	if positions > maxPositions {
		return nil, model.TooLong(positions, maxPositions, "max_position_embeddings")
	}
	if positions > maxAngles/c.HeadDim {
		return nil, fault.Try(fmt.Errorf("%d positions (max_position_embeddings or the sequence length) x head_dim %d exceeds the limit of rotary tables, %d", positions, c.HeadDim, maxAngles), "a smaller max_position_embeddings")
	}
	rope, err := rotary.Tables(b, positions)
	if err != nil {
		return nil, err
	}
	std := nn.Init{Kind: nn.Normal, Std: c.InitializerRange}
	m := &Llama{cfg: c, rope: rope, positions: maxPositions}
	m.embed = nn.NewEmbedding("model.embed_tokens", c.VocabSize, c.HiddenSize, std).WithPadding(c.PadTokenID)
	m.units = append(m.units, &nn.Unit{Name: "embed_tokens", Params: []*nn.Param{m.embed.Weight}})
	for i := range c.NumHiddenLayers {
		l := newBlock(c, i, std)
		l.unit.Name = fmt.Sprintf("layers.%d", i)
		m.blocks = append(m.blocks, l)
		m.units = append(m.units, l.unit)
	}
	m.norm = nn.NewRMSNorm("model.norm", c.HiddenSize, c.RMSNormEps)
	last := &nn.Unit{Name: "lm_head", Params: []*nn.Param{m.norm.Weight}}
	if c.TieWordEmbeddings {
		m.head = m.embed.Weight
		m.head.Duplicates = []string{"lm_head.weight"}
		last.Shared = []*nn.Param{m.head}
	} else {
		m.head = nn.NewParam("lm_head.weight", std, c.VocabSize, c.HiddenSize)
		last.Params = append(last.Params, m.head)
	}
	m.head.Quantizable = true
	m.units = append(m.units, last)
	return m, nil
}

func newBlock(c Config, layer int, std nn.Init) *block {
	prefix := fmt.Sprintf("model.layers.%d.", layer)
	linear := func(name string, in, out int, bias bool) *nn.Linear {
		l := nn.NewLinear(prefix+name, in, out, std)
		if bias {
			l.WithBias()
		}
		return l
	}
	d, f, q, kv := c.HiddenSize, c.IntermediateSize, c.NumAttentionHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	biased, outBiased := c.biases()
	l := &block{
		layer: layer, cfg: c,
		window:   c.Window(layer),
		attnNorm: nn.NewRMSNorm(prefix+"input_layernorm", d, c.RMSNormEps),
		qkv: nn.NewFusedLinear(
			linear("self_attn.q_proj", d, q, biased),
			linear("self_attn.k_proj", d, kv, biased),
			linear("self_attn.v_proj", d, kv, biased)),
		attnDrop: nn.NewDropout(prefix+"self_attn", c.AttentionDropout),
		out:      linear("self_attn.o_proj", q, d, outBiased),
		mlpNorm:  nn.NewRMSNorm(prefix+"post_attention_layernorm", d, c.RMSNormEps),
		mlp:      nn.NewGatedMLP(prefix+"mlp", d, f, c.MLPBias, std),
	}
	l.unit = &nn.Unit{}
	l.unit.Params = append(l.unit.Params, l.attnNorm.Weight)
	l.unit.Params = append(l.unit.Params, l.qkv.Params()...)
	l.unit.Params = append(l.unit.Params, l.out.Params()...)
	if c.normsHeads() {
		l.headNorms = nn.NewHeadNorms(prefix+"self_attn.q_norm", prefix+"self_attn.k_norm", c.HeadDim, c.RMSNormEps)
		l.unit.Params = append(l.unit.Params, l.headNorms.Q, l.headNorms.K)
	}
	l.unit.Params = append(l.unit.Params, l.mlpNorm.Weight)
	l.unit.Params = append(l.unit.Params, l.mlp.Params()...)
	return l
}

// forward maps x [N D] to [N D].
func (l *block) forward(t *autograd.Tape, x *autograd.Var, rope autograd.RopeTable, b model.Batch) *autograd.Var {
	attn := l.unit.Part(t, nn.Attention, func(t *autograd.Tape, in ...*autograd.Var) *autograd.Var {
		return l.attention(t, in[0], rope, b)
	}, l.attnNorm.Forward(t, x))
	y, x := l.mlpNorm.AddForward(t, attn, x)
	return t.Add(x, l.unit.Part(t, nn.MLP, l.mlp.Forward, y))
}

// attention maps normalized x [N D] to [N D].
func (l *block) attention(t *autograd.Tape, x *autograd.Var, rope autograd.RopeTable, b model.Batch) *autograd.Var {
	c := l.cfg
	qkv := l.qkv.Forward(t, x)
	if l.headNorms != nil {
		qkv = l.headNorms.Forward(t, qkv, c.NumAttentionHeads, c.NumKeyValueHeads)
	}
	qkv = t.Rope(qkv, (c.NumAttentionHeads+c.NumKeyValueHeads)*c.HeadDim, c.HeadDim, rope)
	return l.out.Forward(t, b.Cache.Attend(t, l.layer, b.Docs, b.Attention(tensor.AttentionParams{
		Heads: c.NumAttentionHeads, KVHeads: c.NumKeyValueHeads, E: c.HeadDim,
		Scale: 1 / math.Sqrt(float64(c.HeadDim)), Causal: true, Window: l.window,
	}, l.attnDrop), qkv))
}

// Forward runs the embedding, a layer, or the head with the summed cross-entropy.
func (m *Llama) Forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch, sums *tensor.Tensor) *autograd.Var {
	switch {
	case i == 0:
		return m.embed.Forward(t, b.IDs)
	case i <= len(m.blocks):
		rope := m.rope
		rope.Positions = b.Positions
		return m.blocks[i-1].forward(t, x, rope, b)
	}
	t.LinearCrossEntropy(sums.Flat(0, 1), m.norm.Forward(t, x), &m.head.Var, nil, b.Labels())
	return nil
}

func (m *Llama) Buffers() []**tensor.Tensor { return []**tensor.Tensor{&m.rope.Cos, &m.rope.Sin} }

// Units are the embedding, the layers, and the final norm with the head.
func (m *Llama) Units() []*nn.Unit { return m.units }

func (m *Llama) Logits(t *autograd.Tape, b model.Batch, rows ...int) *tensor.Tensor {
	be := t.Backend()
	logits := be.New(tensor.Logits, tensor.F32, len(rows), m.cfg.VocabSize)
	model.RunWithHead(m, t, b, func(t *autograd.Tape, x *autograd.Var) {
		model.RowLogits(be, logits, m.norm.Forward(t, x).Value, m.head, nil, rows)
	})
	return logits
}

// Info counts the head and all projections, not the embedding, as matmul parameters.
func (m *Llama) Info() model.Info {
	c := m.cfg
	n, head := model.CountParams(m), int64(c.VocabSize)*int64(c.HiddenSize)
	if !c.TieWordEmbeddings {
		n -= head
	}
	var attention []model.Attention
	for _, l := range m.blocks {
		attention = append(attention, model.Attention{Layers: 1, Causal: true, Window: l.window})
	}
	return model.Info{
		Vocab: c.VocabSize, MaxPositions: m.positions, Layers: c.NumHiddenLayers, Hidden: c.HiddenSize,
		Heads: c.NumAttentionHeads, KVHeads: c.NumKeyValueHeads, HeadDim: c.HeadDim, Tied: c.TieWordEmbeddings, MatMulParams: n - head, HeadParams: head, Attention: attention,
	}
}
