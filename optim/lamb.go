package optim

import (
	"math"

	"trireme/tensor"
	"trireme/tensor/compose"
)

// LAMB scales Adam's step by each parameter's trust ratio (You et al. 2020, as in DeepSpeed's
// FusedLamb).
type LAMB struct {
	Beta1, Beta2, Eps float64
	EpsInside         bool // add Eps before the square root
	Uncorrected       bool // disable bias correction
	// Min and Max bound the trust ratio.
	Min, Max float64
}

var _ NormScaled = LAMB{}

func (LAMB) Name() string { return "lamb" }

func (LAMB) Slots() []Slot { return slots("exp_avg", "exp_avg_sq") }

// Hyper applies bias correction to the learning rate.
func (o LAMB) Hyper(lr, weightDecay float64, t int) []float64 {
	if !o.Uncorrected {
		lr *= math.Sqrt(1-math.Pow(o.Beta2, float64(t))) / (1 - math.Pow(o.Beta1, float64(t)))
	}
	return []float64{tensor.InputLR: lr, tensor.InputDecay: weightDecay, tensor.DescentScale: 1}
}

// Direction is Adam's, including weight decay.
func (o LAMB) Direction(b tensor.Backend, d *tensor.Tensor, s Slice, hyper, scalars *tensor.Tensor) {
	rule := tensor.LAMB{Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, EpsInside: o.EpsInside}
	b.Update(rule, d, []*tensor.Tensor{s.State[0], s.State[1], s.P}, s.G, s.Ends, hyper, scalars)
}

// AdjustRates scales each parameter's step by the ratio of its norms, unless one is 0.
func (o LAMB) AdjustRates(b tensor.Backend, rates *tensor.Tensor, n Norms) {
	s := compose.NewScope(b)
	defer s.Release()
	ratio := s.With(s.With(s.Unary(s.Div(n.P, n.D), tensor.Sqrt), tensor.Max, o.Min), tensor.Min, o.Max)
	for _, norm := range []*tensor.Tensor{n.P, n.D} {
		ratio = s.Where(s.With(norm, tensor.Gt, 0), ratio, 1)
	}
	b.Copy(column(rates, tensor.DescentScale), ratio)
	decay := column(rates, tensor.InputDecay) // already in the direction
	b.Copy(decay, s.With(decay, tensor.Mul, 0))
}

func (LAMB) Apply(b tensor.Backend, d *tensor.Tensor, s Slice, rates, scalars *tensor.Tensor) {
	descend(b, 0, d, s, nil, rates, scalars)
}
