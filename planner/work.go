package planner

// Work is the computation of a rank: FLOPs of matrix products and of attention (without the masked half of causal
// attention), bytes of the operands of all other operations, and the number of operations. State is the operands that
// are parameters, gradients and optimizer state: the optimizer, casts, accumulation. Bytes is the others.
type Work struct {
	Products, Attention float64
	Bytes, State        float64
	Calls               float64
}

func (w Work) minus(o Work) Work { return w.plus(o, -1) }

func (w Work) plus(o Work, n float64) Work {
	return Work{w.Products + n*o.Products, w.Attention + n*o.Attention, w.Bytes + n*o.Bytes, w.State + n*o.State, w.Calls + n*o.Calls}
}

// seconds returns the time of the products and of the rest.
func (w Work) seconds(r Rates) (products, rest float64) {
	return (w.Products + w.Attention) / r.Products, w.Bytes/r.Operands + w.State/r.State
}

// simulated returns the seconds of computation in the simulated micro-batches.
func (p Plan) simulated(r Rates) float64 {
	products, rest := p.Work.seconds(r)
	return (products + rest) / p.repeats
}
