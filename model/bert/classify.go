package bert

import (
	"trireme/autograd"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// Classifier classifies sequences by their first row; C labels.
type Classifier struct {
	*encoder
	pool *nn.Linear // [D D]
	drop nn.Dropout
	head *nn.Linear // [C D]
}

func newClassifier(e *encoder, std nn.Init) *Classifier {
	d := e.cfg.HiddenSize
	m := &Classifier{
		encoder: e,
		pool:    nn.NewLinear(pooler+".dense", d, d, std).WithBias(),
		drop:    nn.NewDropout("dropout", e.cfg.classifierDropout()),
		head:    nn.NewLinear(classifier, d, e.cfg.labels(), std).WithBias(),
	}
	m.head.Weights[0].Hidden = false
	m.units = append(m.units, &nn.Unit{Name: classifier, Params: append(m.pool.Params(), m.head.Params()...)})
	return m
}

// classes maps x [N D] to logits [B C].
func (m *Classifier) classes(t *autograd.Tape, x *autograd.Var, b model.Batch) *autograd.Var {
	pooled := t.Tanh(m.pool.Forward(t, t.SelectRows(x, b.Starts.Flat(0, b.Sequences()))))
	return m.head.Forward(t, b.DropSequences(t, m.drop, pooled))
}

// Forward runs the embeddings, a layer, or the head with the summed cross-entropy and the label
// counts.
func (m *Classifier) Forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch, sums *tensor.Tensor) *autograd.Var {
	if i <= len(m.layers) {
		return m.encoder.forward(t, i, x, b)
	}
	t.Classify(sums, m.classes(t, x, b), b.Classes)
	return nil
}

// Logits returns the logits of each sequence.
func (m *Classifier) Logits(t *autograd.Tape, b model.Batch, _ ...int) *tensor.Tensor {
	logits := t.Backend().New(tensor.Logits, tensor.F32, b.Sequences(), m.cfg.labels())
	model.RunWithHead(m, t, b, func(t *autograd.Tape, x *autograd.Var) {
		t.Backend().Copy(logits, m.classes(t, x, b).Value)
	})
	return logits
}

// Info excludes parameters that are used once per sequence.
func (m *Classifier) Info() model.Info {
	info := m.info(model.Classify)
	info.Labels = m.cfg.labels()
	return info
}
