package model

import "trireme/nn"

// Attention describes a number of equal attention layers.
type Attention struct {
	Layers int
	Causal bool
	Window int // sliding window of causal attention; 0 is none
}

// pairs returns the number of attended pairs in a document of n tokens.
func (a Attention) pairs(n float64) float64 {
	switch w := float64(a.Window); {
	case !a.Causal:
		return n * n
	case w > 0 && w < n:
		return w*(w+1)/2 + (n-w)*w
	}
	return n * (n + 1) / 2
}

// FLOPs returns the FLOPs of a training step on a document: 6 per token and parameter it is
// multiplied by (HeadParams only for the given number of labels), and 12*heads*headDim per layer
// and attended pair. Recomputation and, after Frozen, gradients that are not needed do not count.
func (i Info) FLOPs(tokens, labels int64) float64 {
	pairs := 0.0
	for _, a := range i.Attention {
		pairs += float64(a.Layers) * a.pairs(float64(tokens))
	}
	matrices := (6*float64(i.MatMulParams) - i.spared.token) * float64(tokens)
	head := (6*float64(i.HeadParams) - i.spared.label) * float64(labels)
	return matrices + head + (12-i.spared.pair)*float64(i.Heads*i.HeadDim)*pairs
}

// RowFLOPs is FLOPs if all tokens have labels.
func (i Info) RowFLOPs(tokens int) float64 { return i.FLOPs(int64(tokens), int64(tokens)) }

// Frozen returns i for a model with frozen parameters. Their gradients are not computed, nor those
// of activations before the first trainable unit.
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
