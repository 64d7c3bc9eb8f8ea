package tensor

// UpdateRule is an element-wise optimizer formula for Optimizers.Update, with the constants shared
// by all groups and updates. Package compose has the formulas of the types in this file; all are
// comparable. d is the gradient times scalars[ScalarScale]. An element whose parameter, gradient and
// state are 0 stays 0 (Eps is positive), so padding may be updated too.
type UpdateRule interface {
	// States is the number of state tensors, each with one element per parameter.
	States() int
	// Inputs is the length of a group's row of inputs, starting with InputLR and InputDecay.
	Inputs() int
}

// Inputs of every rule.
const (
	InputLR    = iota // learning rate
	InputDecay        // weight decay
	CommonInputs
)

// AdamW (Loshchilov and Hutter 2019, as in torch.optim.AdamW):
//
//	p *= 1 - lr*decay
//	m = Beta1*m + (1-Beta1)*d; v = Beta2*v + (1-Beta2)*d*d
//	p -= lr/bias1 * m / (sqrt(v)/sqrt(bias2) + Eps)
//
// With L2 it is Adam (Kingma and Ba 2015, as in torch.optim.Adam): d += decay*p comes first, and p
// is not scaled.
type AdamW struct {
	Beta1, Beta2, Eps float64
	L2                bool
}

// Inputs of AdamW at update t, which starts at 1.
const (
	AdamBias1 = CommonInputs + iota // 1 - Beta1^t
	AdamBias2                       // 1 - Beta2^t
	AdamCount
)

// States is 2: m and v.
func (AdamW) States() int { return 2 }

func (AdamW) Inputs() int { return AdamCount }

// SGD, as in torch.optim.SGD. Without Momentum it has no state:
//
//	d += decay*p
//	m = Momentum*m + weight*d; d = m, or d + Momentum*m if Nesterov
//	p -= lr*d
type SGD struct {
	Momentum float64
	Nesterov bool
}

// Inputs of SGD.
const (
	SGDGradWeight = CommonInputs + iota // 1 - dampening, or 1 at the first update
	SGDCount
)

// States is 1 with momentum: m.
func (r SGD) States() int {
	if r.Momentum == 0 {
		return 0
	}
	return 1
}

func (SGD) Inputs() int { return SGDCount }

// Lion (Chen et al. 2023, algorithm 2):
//
//	p *= 1 - lr*decay
//	p -= lr * sign(Beta1*m + (1-Beta1)*d)
//	m = Beta2*m + (1-Beta2)*d
type Lion struct{ Beta1, Beta2 float64 }

// States is 1: m.
func (Lion) States() int { return 1 }

func (Lion) Inputs() int { return CommonInputs }

// Adagrad (Duchi et al. 2011, as in torch.optim.Adagrad):
//
//	d += decay*p
//	s += initial + d*d
//	p -= lr * d / (sqrt(s) + Eps)
type Adagrad struct{ Eps float64 }

// Inputs of Adagrad.
const (
	AdagradInitial = CommonInputs + iota // initial s at the first update, else 0
	AdagradCount
)

// States is 1: s.
func (Adagrad) States() int { return 1 }

func (Adagrad) Inputs() int { return AdagradCount }

// Average updates an average of the parameters, and leaves the parameters unchanged:
//
//	a += weight * (p - a)
type Average struct{}

// Inputs of Average.
const (
	AverageWeight = CommonInputs + iota // 1 - decay; 1 copies the parameters
	AverageCount
)

// States is 1: a.
func (Average) States() int { return 1 }

func (Average) Inputs() int { return AverageCount }

// Momentum writes a direction to p, which is not a parameter:
//
//	m = m + (1-Beta)*(d-m); p = m, or d + Beta*(m-d) if Nesterov
type Momentum struct {
	Beta     float64
	Nesterov bool
}

// States is 1: m.
func (Momentum) States() int { return 1 }

func (Momentum) Inputs() int { return CommonInputs }

// Descent takes a step along a direction, passed as the gradient:
//
//	d *= scale; p = p*(1 - lr*decay) - lr*d
//
// With Beta it averages steps: m = Beta*m + (1-Beta)*lr*d; p = p*(1 - lr*decay) - m.
type Descent struct{ Beta float64 }

// Inputs of Descent.
const (
	DescentScale = CommonInputs + iota
	DescentCount
)

// States is 1 with Beta: m.
func (r Descent) States() int {
	if r.Beta == 0 {
		return 0
	}
	return 1
}

func (Descent) Inputs() int { return DescentCount }

// LAMB writes the direction of LAMB (You et al. 2020, as in DeepSpeed) to p. Its third state is the
// parameter, unchanged:
//
//	m = Beta1*m + (1-Beta1)*d; v = Beta2*v + (1-Beta2)*d*d
//	p = m / (sqrt(v) + Eps) + decay*parameter, or with sqrt(v + Eps) if EpsInside
type LAMB struct {
	Beta1, Beta2, Eps float64
	EpsInside         bool
}

// States is 3: m, v and the parameter.
func (LAMB) States() int { return 3 }

func (LAMB) Inputs() int { return CommonInputs }

// Adafactor writes the gradient divided by the root of its second moment to p:
//
//	v = beta2*v + (1-beta2)*(d*d + Eps); p = d / sqrt(v)
type Adafactor struct{ Eps float64 }

// Inputs of Adafactor, after those of Descent in the same row.
const (
	AdafactorBeta2 = DescentCount + iota // decay rate of the second moment
	AdafactorCount
)

// States is 1: v.
func (Adafactor) States() int { return 1 }

func (Adafactor) Inputs() int { return AdafactorCount }
