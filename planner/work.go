package planner

// Work is the computation of a rank: FLOPs of matrix products and of attention (without the masked half of causal
// attention), bytes of the operands of all operations, and their number.
type Work struct {
	Products, Attention float64
	Bytes               float64
	Calls               float64
}

func (w Work) minus(o Work) Work {
	return Work{w.Products - o.Products, w.Attention - o.Attention, w.Bytes - o.Bytes, w.Calls - o.Calls}
}

func (w Work) plus(o Work, n float64) Work {
	return Work{w.Products + n*o.Products, w.Attention + n*o.Attention, w.Bytes + n*o.Bytes, w.Calls + n*o.Calls}
}

// simulated returns the seconds of computation in the simulated micro-batches.
func (p Plan) simulated(r Rates) float64 {
	return ((p.Work.Products+p.Work.Attention)/r.Products + p.Work.Bytes/r.Operands) / p.repeats
}
