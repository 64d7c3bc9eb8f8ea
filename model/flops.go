package model

import "trireme/nn"

// Attention is a number of layers of one kind.
type Attention struct {
	Layers int
	Causal bool
	Window int // of a causal one; 0 is none
}

// pairs is how many positions those of a document of n tokens see together.
func (a Attention) pairs(n float64) float64 {
	switch w := float64(a.Window); {
	case !a.Causal:
		return n * n
	case w > 0 && w < n:
		return w*(w+1)/2 + (n-w)*w
	}
	return n * (n + 1) / 2
}

// FLOPs of a training step on a document of some tokens, labels of which have a label: 6 for each
// parameter and token that is multiplied by it, and in each layer 12*heads*headDim for each pair
// of positions one of which sees the other. Nothing is counted twice, and nothing that no label
// or, after Frozen, no gradient needs.
func (i Info) FLOPs(tokens, labels int64) float64 {
	pairs := 0.0
	for _, a := range i.Attention {
		pairs += float64(a.Layers) * a.pairs(float64(tokens))
	}
	matrices := (6*float64(i.MatMulParams) - i.spared.token) * float64(tokens)
	head := (6*float64(i.HeadParams) - i.spared.label) * float64(labels)
	return matrices + head + (12-i.spared.pair)*float64(i.Heads*i.HeadDim)*pairs
}

// RowFLOPs is FLOPs of a row all of whose tokens have a label.
func (i Info) RowFLOPs(tokens int) float64 { return i.FLOPs(int64(tokens), int64(tokens)) }

// Frozen is i for a model of whose parameters some are frozen: their gradients are not computed, nor
// those of values before the first unit that trains.
func (i Info) Frozen(units []*nn.Unit) Info {
	below, layers := false, len(units)-2
	for k, u := range units {
		trains := false
		for _, p := range append(u.Params[:len(u.Params):len(u.Params)], u.Shared...) {
			trains = trains || !p.Frozen
			spared := 0.0
			if p.Frozen {
				spared += 2
			}
			if !below {
				spared += 2
			}
			switch n := int64(p.Shape.Elems()); {
			case k == len(units)-1 && n == i.HeadParams:
				i.spared.label += spared * float64(n)
			case k > 0 && (k <= layers || i.HeadParams > 0):
				i.spared.token += spared * float64(n)
			}
		}
		if !below && !trains && k > 0 && k <= layers {
			i.spared.pair += 8 / float64(layers)
		}
		below = below || trains
	}
	return i
}
