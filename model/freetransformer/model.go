package freetransformer

import (
	"fmt"
	"hash/fnv"
	"math"

	"trireme/autograd"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// Model is the network. N rows are B sequences; D hidden size, H latent bits, V vocabulary.
type Model struct {
	cfg    Config
	rope   autograd.RopeTable
	embed  *nn.Embedding // [V D]
	blocks []*block
	middle int     // index of the block conditioned on the latent; -1 for none
	latent *latent // nil for the baseline
	norm   *nn.RMSNorm
	head   *nn.Param // [V D]
	units  []*nn.Unit
}

// latent samples the bits and embeds them.
type latent struct {
	encoder *block
	query   *nn.Param // [D]: the encoder's query at every position
	norm    *nn.RMSNorm
	readout *nn.Linear // [H D]: to the logits of the bits
	post    *nn.Param  // exact: [2^H D]; factored: [D H]
}

// New returns the network for sequences of up to positions rows; 0 is the model's maximum.
func New(b tensor.Backend, c Config, positions int) (*Model, error) {
	if positions == 0 {
		positions = c.MaxPositionEmbeddings
	}
	if positions > c.MaxPositionEmbeddings {
		return nil, model.TooLong(positions, c.MaxPositionEmbeddings, "max_position_embeddings")
	}
	rope, err := c.rotary().Tables(b, positions)
	if err != nil {
		return nil, err
	}
	std := nn.Init{Kind: nn.Normal, Std: c.InitializerRange}
	m := &Model{cfg: c, rope: rope, middle: -1}
	m.embed = nn.NewEmbedding("model.embed_tokens", c.VocabSize, c.HiddenSize, std)
	m.units = append(m.units, &nn.Unit{Name: "embed_tokens", Params: []*nn.Param{m.embed.Weight}})
	if c.LatentBits > 0 {
		m.middle, m.latent = c.NumHiddenLayers/2, newLatent(c)
	}
	for i := range c.NumHiddenLayers {
		l := newBlock(c, fmt.Sprintf("model.layers.%d.", i), i, true)
		u := &nn.Unit{Name: fmt.Sprintf("layers.%d", i), Params: l.params()}
		l.unit = u
		if i == m.middle {
			u.Params = append(m.latent.params(), u.Params...)
			m.latent.encoder.unit = u
		}
		m.blocks, m.units = append(m.blocks, l), append(m.units, u)
	}
	m.norm = nn.NewRMSNorm("model.norm", c.HiddenSize, c.RMSNormEps)
	last := &nn.Unit{Name: "lm_head", Params: []*nn.Param{m.norm.Weight}}
	if c.TieWordEmbeddings {
		m.head, last.Shared = m.embed.Weight, []*nn.Param{m.embed.Weight}
	} else {
		m.head = nn.NewParam("lm_head.weight", std, c.VocabSize, c.HiddenSize)
		last.Params = append(last.Params, m.head)
	}
	m.head.Quantizable = true
	m.units = append(m.units, last)
	return m, nil
}

func newLatent(c Config) *latent {
	std := nn.Init{Kind: nn.Normal, Std: c.InitializerRange}
	shape := []int{c.HiddenSize, c.LatentBits}
	if c.LatentMode == Exact {
		shape = []int{1 << c.LatentBits, c.HiddenSize}
	}
	return &latent{
		encoder: newBlock(c, "model.encoder.", c.NumHiddenLayers, false),
		query:   nn.NewParam("model.encoder.query", std, c.HiddenSize),
		norm:    nn.NewRMSNorm("model.encoder.norm", c.HiddenSize, c.RMSNormEps),
		readout: nn.NewLinear("model.encoder.readout", c.HiddenSize, c.LatentBits, std),
		post:    nn.NewParam("model.latent.weight", std, shape...),
	}
}

func (l *latent) params() []*nn.Param {
	ps := append([]*nn.Param{l.query}, l.encoder.params()...)
	ps = append(append(ps, l.norm.Weight), l.readout.Params()...)
	return append(ps, l.post)
}

// LatentSource selects the latent bits of a pass.
type LatentSource struct {
	// Signs (F32 [N H], 1 or -1) are the bits. If nil, they are sampled from the encoder (Encode)
	// or as fair coins.
	Signs  *tensor.Tensor
	Encode bool
	// Sums (F64 [3]), if Encode, receives the sums of autograd.Tape.FreeBits.
	Sums *tensor.Tensor
	// Drawn, if not nil, receives the bits (F32 [N H]).
	Drawn *tensor.Tensor
}

// key returns the latent's random key.
func key(b model.Batch) tensor.RandKey {
	h := fnv.New64a()
	h.Write([]byte("latent"))
	return tensor.RandKey{Seed: b.Seed, Stream: h.Sum64()}
}

// embedLatent returns r [N D], the embedded latent that the middle block adds to x [N D].
func (m *Model) embedLatent(t *autograd.Tape, x *autograd.Var, rope autograd.RopeTable, b model.Batch, s LatentSource) *autograd.Var {
	l, bits := m.latent, m.cfg.LatentBits
	var logits, signs *autograd.Var
	switch {
	case s.Signs != nil:
		signs = autograd.Const(s.Signs)
	case s.Encode:
		y := l.encoder.forwardCross(t, t.Repeat(&l.query.Var, b.IDs.Elems()), x, rope, b)
		logits = l.readout.Forward(t, l.norm.Forward(t, y))
		signs = t.Signs(logits, key(b), b.TokenKeys)
	default:
		signs = t.RandomSigns(bits, key(b), b.TokenKeys)
	}
	if s.Drawn != nil {
		t.Backend().Copy(s.Drawn, signs.Value)
	}
	if logits != nil && s.Sums != nil {
		t.FreeBits(s.Sums, logits, b.Targets, m.cfg.FreeBits*math.Ln2)
	}
	if m.cfg.LatentMode == Factored {
		return t.SignLinear(signs, logits, &l.post.Var)
	}
	return t.CodeTable(signs, logits, &l.post.Var)
}

// forward runs unit i, the embedding or a block, with bits from s.
func (m *Model) forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch, s LatentSource) *autograd.Var {
	if i == 0 {
		return m.embed.Forward(t, b.IDs)
	}
	rope, l := m.rope, m.blocks[i-1]
	rope.Positions = b.Positions
	if i-1 == m.middle {
		return l.forwardCross(t, x, t.Add(x, m.embedLatent(t, x, rope, b, s)), rope, b)
	}
	return l.forward(t, x, rope, b)
}

func (m *Model) Buffers() []**tensor.Tensor { return []**tensor.Tensor{&m.rope.Cos, &m.rope.Sin} }

// Units are the embedding, the blocks, the middle one with the latent, and the head.
func (m *Model) Units() []*nn.Unit { return m.units }

// Indices of Info.Sums and Info.EvalSums in Loss's sums.
const (
	sumLoss = iota
	sumCrossEntropy
	sumKLBits
	sumBound
	sumPrior
)

// Forward runs the embedding, a block, or the head. The middle block adds the divergence above
// free_bits, the head the summed cross-entropy. The second evaluation pass uses fair coins.
func (m *Model) Forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch, sums *tensor.Tensor) *autograd.Var {
	encode := m.latent != nil && b.Pass == 0
	switch {
	case i <= len(m.blocks) && (i-1 != m.middle || !encode):
		return m.forward(t, i, x, b, LatentSource{})
	case i <= len(m.blocks):
		spread(t.Backend(), sums, func(kl *tensor.Tensor) {
			x = m.forward(t, i, x, b, LatentSource{Encode: true, Sums: kl})
		}, []int{sumLoss}, []int{sumBound}, []int{sumKLBits})
		return x
	case encode:
		spread(t.Backend(), sums, func(ce *tensor.Tensor) { m.crossEntropy(t, ce, x, b) }, []int{sumCrossEntropy, sumLoss, sumBound})
	case b.Pass > 0:
		m.crossEntropy(t, sums.Flat(sumPrior, sumPrior+1), x, b)
	default:
		m.crossEntropy(t, sums.Flat(0, 1), x, b)
	}
	return nil
}

// crossEntropy runs the head and adds the summed cross-entropy to sum (F64 [1]).
func (m *Model) crossEntropy(t *autograd.Tape, sum *tensor.Tensor, x *autograd.Var, b model.Batch) {
	t.LinearCrossEntropy(sum, m.norm.Forward(t, x), &m.head.Var, nil, b.Labels())
}

// spread calls f with one sum per list of to, then adds each to the sums in its list.
func spread(be tensor.Backend, sums *tensor.Tensor, f func(parts *tensor.Tensor), to ...[]int) {
	parts := be.New(tensor.Workspace, tensor.F64, len(to))
	defer parts.Release()
	be.Fill(parts, 0)
	f(parts)
	for part, list := range to {
		for _, i := range list {
			sum := sums.Flat(i, i+1)
			be.Binary(sum, sum, parts.Flat(part, part+1), tensor.Add)
		}
	}
}

// Logits returns the logits of rows, with fair coins as bits.
func (m *Model) Logits(t *autograd.Tape, b model.Batch, rows ...int) *tensor.Tensor {
	return m.LogitsFrom(t, b, LatentSource{}, rows...)
}

// withLatent is the model with bits from s.
type withLatent struct {
	*Model
	s LatentSource
}

func (m withLatent) Forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch, _ *tensor.Tensor) *autograd.Var {
	return m.forward(t, i, x, b, m.s)
}

// LogitsFrom is Logits with bits from s.
func (m *Model) LogitsFrom(t *autograd.Tape, b model.Batch, s LatentSource, rows ...int) *tensor.Tensor {
	be := t.Backend()
	logits := be.New(tensor.Logits, tensor.F32, len(rows), m.cfg.VocabSize)
	model.RunWithHead(withLatent{m, s}, t, b, func(t *autograd.Tape, x *autograd.Var) {
		model.RowLogits(be, logits, m.norm.Forward(t, x).Value, m.head, nil, rows)
	})
	return logits
}

// Info counts the head, all projections and the encoder as matmul parameters. The latent's table is
// looked up in forward; its backward is a product of each token with every row.
func (m *Model) Info() model.Info {
	c := m.cfg
	n, head := model.CountParams(m), int64(c.VocabSize)*int64(c.HiddenSize)
	if !c.TieWordEmbeddings {
		n -= head
	}
	info := model.Info{
		Vocab: c.VocabSize, MaxPositions: c.MaxPositionEmbeddings, Layers: c.NumHiddenLayers, Hidden: c.HiddenSize,
		Heads: c.NumAttentionHeads, KVHeads: c.NumKeyValueHeads, HeadDim: c.HeadDim, Tied: c.TieWordEmbeddings, MatMulParams: n - head, HeadParams: head,
		Attention: []model.Attention{{Layers: c.NumHiddenLayers, Causal: true}},
	}
	if m.latent != nil {
		if c.LatentMode == Exact { // 2 of the 6 operations that FLOPs counts
			info.MatMulParams -= int64(m.latent.post.Shape.Elems()) * 2 / 3
		}
		info.Layers, info.Attention = info.Layers+1, append(info.Attention, model.Attention{Layers: 1})
		info.Sums, info.EvalSums = []string{"cross_entropy", "kl_bits", "bound"}, []string{"prior_cross_entropy"}
		info.EvalPasses = 2
	}
	return info
}
