package bert

import (
	"trireme/autograd"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// MaskedLM predicts masked tokens.
type MaskedLM struct {
	*encoder
	tanh      bool
	transform *nn.Linear // [D D]
	norm      *nn.LayerNorm
	decoder   *nn.Param // [V D]; the embedding's if tied
	bias      *nn.Param // [V]
}

func newMasked(e *encoder, tanh bool, std nn.Init) *MaskedLM {
	c := e.cfg
	m := &MaskedLM{
		encoder: e, tanh: tanh,
		transform: nn.NewLinear(masked+".transform.dense", c.HiddenSize, c.HiddenSize, std).WithBias(),
		norm:      nn.NewLayerNorm(masked+".transform.LayerNorm", c.HiddenSize, c.LayerNormEps),
		bias:      nn.NewParam(masked+".bias", nn.Init{Kind: nn.Zeros}, c.VocabSize),
	}
	last := &nn.Unit{Name: masked, Params: append(append(m.transform.Params(), m.norm.Params()...), m.bias)}
	if c.TieWordEmbeddings {
		m.decoder = e.words.Weight
		m.decoder.Duplicates, m.bias.Duplicates = []string{masked + ".decoder.weight"}, []string{decoderBias}
		last.Shared = []*nn.Param{m.decoder}
	} else {
		m.decoder = nn.NewParam(masked+".decoder.weight", std, c.VocabSize, c.HiddenSize)
		m.bias.Aliases = []string{decoderBias}
		last.Params = append(last.Params, m.decoder)
	}
	m.units = append(m.units, last)
	return m
}

// transformed maps x [N D] to the input of the decoder [N D].
func (m *MaskedLM) transformed(t *autograd.Tape, x *autograd.Var) *autograd.Var {
	return m.norm.Forward(t, t.GELU(m.transform.Forward(t, x), m.tanh))
}

// Forward runs the embeddings, a layer, or the head with the summed cross-entropy of rows with
// labels.
func (m *MaskedLM) Forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch, sums *tensor.Tensor) *autograd.Var {
	if i <= len(m.layers) {
		return m.encoder.forward(t, i, x, b)
	}
	t.LinearCrossEntropy(sums.Flat(0, 1), m.transformed(t, x), &m.decoder.Var, &m.bias.Var, b.Labels())
	return nil
}

func (m *MaskedLM) Logits(t *autograd.Tape, b model.Batch, rows ...int) *tensor.Tensor {
	logits := t.Backend().New(tensor.Logits, tensor.F32, len(rows), m.cfg.VocabSize)
	model.RunWithHead(m, t, b, func(t *autograd.Tape, x *autograd.Var) {
		model.RowLogits(t.Backend(), logits, m.transformed(t, x).Value, m.decoder, m.bias, rows)
	})
	return logits
}

// Info counts the head and all projections as matmul parameters.
func (m *MaskedLM) Info() model.Info {
	info := m.info(model.Masked)
	info.Tied = m.cfg.TieWordEmbeddings
	d := int64(m.cfg.HiddenSize)
	info.MatMulParams, info.HeadParams = info.MatMulParams+d*d, d*int64(m.cfg.VocabSize)
	return info
}
