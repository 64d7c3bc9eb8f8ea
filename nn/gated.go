package nn

import "trireme/autograd"

// GatedMLP is Llama's feed-forward block, down(SwiGLU(gate, up)) (Shazeer 2020, GLU variants
// improve transformer).
type GatedMLP struct {
	gateUp *Linear // [2F D]
	down   *Linear // [D F]
}

// NewGatedMLP makes gate_proj, up_proj and down_proj under name, d wide outside and f inside.
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

// Params lists gate, up and down.
func (m *GatedMLP) Params() []*Param { return append(m.gateUp.Params(), m.down.Params()...) }

// Forward maps normalized x[0] [N D] to [N D], for use with Unit.Part.
func (m *GatedMLP) Forward(t *autograd.Tape, x ...*autograd.Var) *autograd.Var {
	return m.down.Forward(t, t.SwiGLU(m.gateUp.Forward(t, x[0])))
}
