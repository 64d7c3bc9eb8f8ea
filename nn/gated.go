package nn

import "trireme/autograd"

// GatedMLP is the half of a layer behind attention in Llama and its relatives: down of SwiGLU of
// gate and up (Shazeer 2020, GLU variants improve transformer).
type GatedMLP struct {
	gateUp *Linear // [2F D]
	down   *Linear // [D F]
}

// NewGatedMLP makes gate_proj, up_proj and down_proj under name, for rows of d numbers and f inside.
func NewGatedMLP(name string, d, f int, bias bool, init Init) *GatedMLP {
	linear := func(part string, in, out int) *Linear {
		l := NewLinear(name+"."+part, in, out, init)
		if bias {
			l.WithBias()
		}
		return l
	}
	return &GatedMLP{gateUp: NewFusedLinear(linear("gate_proj", d, f), linear("up_proj", d, f)), down: linear("down_proj", f, d)}
}

// Params are those of gate and up, and of down.
func (m *GatedMLP) Params() []*Param { return append(m.gateUp.Params(), m.down.Params()...) }

// Forward is x[0] [N D], normalised, -> [N D], as Unit.Part takes it.
func (m *GatedMLP) Forward(t *autograd.Tape, x ...*autograd.Var) *autograd.Var {
	return m.down.Forward(t, t.SwiGLU(m.gateUp.Forward(t, x[0])))
}
