package bert

import (
	"fmt"
	"math"

	"trireme/autograd"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// encoder is the network without a head. N rows are B sequences; D hidden size, H heads, E head
// size, F intermediate size, P positions, S token types, V vocabulary.
type encoder struct {
	cfg       Config
	words     *nn.Embedding // [V D]
	positions *nn.Embedding // [P D]
	types     *nn.Embedding // [S D]
	norm      *nn.LayerNorm
	drop      nn.Dropout
	layers    []*layer
	units     []*nn.Unit
}

// layer is one post-norm encoder layer.
type layer struct {
	cfg       Config
	unit      *nn.Unit
	tanh      bool       // GELU's tanh approximation
	qkv, out  *nn.Linear // [3D D], [D D]
	attnDrop  nn.Dropout
	outDrop   nn.Dropout
	attnNorm  *nn.LayerNorm
	up, down  *nn.Linear // [F D], [D F]
	downDrop  nn.Dropout
	finalNorm *nn.LayerNorm
}

// New returns the network of c's architecture for sequences of up to positions rows; 0 is the
// model's maximum.
func New(_ tensor.Backend, c Config, positions int) (model.Model, error) {
	if positions > c.MaxPositionEmbeddings {
		return nil, model.TooLong(positions, c.MaxPositionEmbeddings, "max_position_embeddings")
	}
	std := nn.Init{Kind: nn.Normal, Std: c.InitializerRange}
	tanh, err := model.GELU(c.HiddenAct)
	if err != nil {
		return nil, err
	}
	e := newEncoder(c, tanh, std)
	if c.classifies() {
		return newClassifier(e, std), nil
	}
	return newMasked(e, tanh, std), nil
}

func newEncoder(c Config, tanh bool, std nn.Init) *encoder {
	const name = prefix + "embeddings."
	e := &encoder{
		cfg:       c,
		words:     nn.NewEmbedding(name+"word_embeddings", c.VocabSize, c.HiddenSize, std).WithPadding(c.PadTokenID),
		positions: nn.NewEmbedding(name+"position_embeddings", c.MaxPositionEmbeddings, c.HiddenSize, std),
		types:     nn.NewEmbedding(name+"token_type_embeddings", c.TypeVocabSize, c.HiddenSize, std),
		norm:      nn.NewLayerNorm(name+"LayerNorm", c.HiddenSize, c.LayerNormEps),
		drop:      nn.NewDropout(name+"dropout", c.HiddenDropoutProb),
	}
	first := &nn.Unit{Name: "embeddings", Params: append([]*nn.Param{e.words.Weight, e.positions.Weight, e.types.Weight}, e.norm.Params()...)}
	e.units = append(e.units, first)
	for i := range c.NumHiddenLayers {
		l := newLayer(c, i, tanh, std)
		e.layers = append(e.layers, l)
		e.units = append(e.units, l.unit)
	}
	return e
}

func newLayer(c Config, i int, tanh bool, std nn.Init) *layer {
	name := fmt.Sprintf("%sencoder.layer.%d.", prefix, i)
	linear := func(part string, in, out int) *nn.Linear { return nn.NewLinear(name+part, in, out, std).WithBias() }
	d := c.HiddenSize
	l := &layer{
		cfg: c, tanh: tanh,
		qkv: nn.NewFusedLinear(
			linear("attention.self.query", d, d),
			linear("attention.self.key", d, d),
			linear("attention.self.value", d, d)),
		out:       linear("attention.output.dense", d, d),
		attnDrop:  nn.NewDropout(name+"attention.self.dropout", c.AttentionProbsDropoutProb),
		outDrop:   nn.NewDropout(name+"attention.output.dropout", c.HiddenDropoutProb),
		attnNorm:  nn.NewLayerNorm(name+"attention.output.LayerNorm", d, c.LayerNormEps),
		up:        linear("intermediate.dense", d, c.IntermediateSize),
		down:      linear("output.dense", c.IntermediateSize, d),
		downDrop:  nn.NewDropout(name+"output.dropout", c.HiddenDropoutProb),
		finalNorm: nn.NewLayerNorm(name+"output.LayerNorm", d, c.LayerNormEps),
	}
	l.unit = &nn.Unit{Name: fmt.Sprintf("layer.%d", i)}
	for _, ps := range [][]*nn.Param{l.qkv.Params(), l.out.Params(), l.attnNorm.Params(), l.up.Params(), l.down.Params(), l.finalNorm.Params()} {
		l.unit.Params = append(l.unit.Params, ps...)
	}
	return l
}

// forward maps x [N D] to [N D].
func (l *layer) forward(t *autograd.Tape, x *autograd.Var, b model.Batch) *autograd.Var {
	y := l.unit.Part(t, nn.Attention, func(t *autograd.Tape, in ...*autograd.Var) *autograd.Var {
		return l.attention(t, in[0], b)
	}, x)
	x, _ = l.attnNorm.AddForward(t, y, x)
	y = l.unit.Part(t, nn.MLP, func(t *autograd.Tape, in ...*autograd.Var) *autograd.Var {
		return b.Drop(t, l.downDrop, l.down.Forward(t, t.GELU(l.up.Forward(t, in[0]), l.tanh)))
	}, x)
	y, _ = l.finalNorm.AddForward(t, y, x)
	return y
}

// attention maps x [N D] to [N D].
func (l *layer) attention(t *autograd.Tape, x *autograd.Var, b model.Batch) *autograd.Var {
	c := l.cfg
	e := c.HiddenSize / c.NumAttentionHeads
	attn := t.Attention(l.qkv.Forward(t, x), b.Docs, b.Attention(tensor.AttentionParams{
		Heads: c.NumAttentionHeads, KVHeads: c.NumAttentionHeads, E: e, Scale: 1 / math.Sqrt(float64(e)),
	}, l.attnDrop))
	return b.Drop(t, l.outDrop, l.out.Forward(t, attn))
}

// embed returns the normalized sum of the three embeddings [N D].
func (e *encoder) embed(t *autograd.Tape, b model.Batch) *autograd.Var {
	x, positions := e.words.Forward(t, b.IDs), e.positions.Forward(t, b.Positions)
	if b.Types == nil {
		x = t.AddRow(x, &e.types.Weight.Var, 0)
	} else {
		x = t.Add(x, e.types.Forward(t, b.Types))
	}
	y, _ := e.norm.AddForward(t, x, positions)
	return b.Drop(t, e.drop, y)
}

// forward runs unit i: the embeddings or a layer.
func (e *encoder) forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch) *autograd.Var {
	if i == 0 {
		return e.embed(t, b)
	}
	return e.layers[i-1].forward(t, x, b)
}

// Units are the embeddings, the layers, and the head.
func (e *encoder) Units() []*nn.Unit { return e.units }

// info returns the properties without head, with the layers' projections as matmul parameters.
func (e *encoder) info(task model.Task) model.Info {
	c := e.cfg
	n := int64(0)
	for _, l := range e.layers {
		for _, p := range l.unit.Params {
			n += int64(p.Shape.Elems())
		}
	}
	return model.Info{
		Task: task, Vocab: c.VocabSize, MaxPositions: c.MaxPositionEmbeddings, Layers: c.NumHiddenLayers, Hidden: c.HiddenSize,
		Heads: c.NumAttentionHeads, KVHeads: c.NumAttentionHeads, HeadDim: c.HiddenSize / c.NumAttentionHeads, MatMulParams: n,
		Attention: []model.Attention{{Layers: c.NumHiddenLayers}},
	}
}
