package tensor

// UpdateRule is an element-wise formula by which Optimizers.Update changes parameters, with the
// constants that all groups and updates share. Package compose has the formula of each type in this
// file; all are comparable. d is the gradient times scalars[ScalarScale]. An element whose parameter,
// gradient and state are 0 stays 0 (Eps is positive), so padding may be updated like the rest.
type UpdateRule interface {
	// States is the number of state tensors, each with one element per parameter.
	States() int
	// Inputs is the length of a group's row of inputs, which begins with InputLR and InputDecay.
	Inputs() int
}

// Every rule's first two inputs.
const (
	InputLR    = iota // learning rate
	InputDecay        // weight decay
	CommonInputs
)

// AdamW (Loshchilov and Hutter 2019, as torch.optim.AdamW writes it):
//
//	p *= 1 - lr*decay
//	m = Beta1*m + (1-Beta1)*d; v = Beta2*v + (1-Beta2)*d*d
//	p -= lr/bias1 * m / (sqrt(v)/sqrt(bias2) + Eps)
//
// With L2 it is Adam (Kingma and Ba 2015, as torch.optim.Adam writes it): p is not scaled, and
// d += decay*p comes first.
type AdamW struct {
	Beta1, Beta2, Eps float64
	L2                bool
}

// AdamW's further inputs at update t, 1 for the first.
const (
	AdamBias1 = CommonInputs + iota // 1 - Beta1^t
	AdamBias2                       // 1 - Beta2^t
	AdamCount
)

// States are m and v.
func (AdamW) States() int { return 2 }

// Inputs are AdamCount.
func (AdamW) Inputs() int { return AdamCount }

// SGD is stochastic gradient descent, as torch.optim.SGD writes it. Without Momentum there is no
// state:
//
//	d += decay*p
//	m = Momentum*m + new*d; d = m, or d + Momentum*m where Nesterov
//	p -= lr*d
type SGD struct {
	Momentum float64
	Nesterov bool
}

// SGD's further input.
const (
	SGDGradWeight = CommonInputs + iota // what d is multiplied by: 1 - dampening, and 1 at the first update
	SGDCount                            //
)

// States is m, if there is momentum.
func (r SGD) States() int {
	if r.Momentum == 0 {
		return 0
	}
	return 1
}

// Inputs are SGDCount.
func (SGD) Inputs() int { return SGDCount }

// Lion (Chen et al. 2023, algorithm 2):
//
//	p *= 1 - lr*decay
//	p -= lr * sign(Beta1*m + (1-Beta1)*d)
//	m = Beta2*m + (1-Beta2)*d
type Lion struct{ Beta1, Beta2 float64 }

// States is m.
func (Lion) States() int { return 1 }

// Inputs are those of all rules.
func (Lion) Inputs() int { return CommonInputs }

// Adagrad (Duchi et al. 2011, as torch.optim.Adagrad writes it):
//
//	d += decay*p
//	s += initial + d*d
//	p -= lr * d / (sqrt(s) + Eps)
type Adagrad struct{ Eps float64 }

// Adagrad's further input.
const (
	AdagradInitial = CommonInputs + iota // what s begins with, at the first update; 0 at others
	AdagradCount
)

// States is s.
func (Adagrad) States() int { return 1 }

// Inputs are AdagradCount.
func (Adagrad) Inputs() int { return AdagradCount }

// Average moves an average of the parameters on, and leaves the parameters as they are:
//
//	a += new * (p - a)
type Average struct{}

// Average's further input.
const (
	AverageWeight = CommonInputs + iota // 1 - decay; 1 makes a the parameters
	AverageCount
)

// States is a.
func (Average) States() int { return 1 }

// Inputs are AverageCount.
func (Average) Inputs() int { return AverageCount }

// Momentum writes a direction over what p had, and changes no parameter:
//
//	m = m + (1-Beta)*(d-m); p = m, or where Nesterov d + Beta*(m-d)
type Momentum struct {
	Beta     float64
	Nesterov bool
}

// States is m.
func (Momentum) States() int { return 1 }

// Inputs are those of all rules.
func (Momentum) Inputs() int { return CommonInputs }

// Descent follows a direction that is given as the gradient:
//
//	d *= scale; p = p*(1 - lr*decay) - lr*d
//
// With Beta a mean of lr*d is followed: m = Beta*m + (1-Beta)*lr*d; p = p*(1 - lr*decay) - m.
type Descent struct{ Beta float64 }

// Descent's further input.
const (
	DescentScale = CommonInputs + iota
	DescentCount
)

// States is m, if there is Beta.
func (r Descent) States() int {
	if r.Beta == 0 {
		return 0
	}
	return 1
}

// Inputs are DescentCount.
func (Descent) Inputs() int { return DescentCount }

// LAMB writes the direction of LAMB (You et al. 2020, as DeepSpeed writes it) over what p had. Its
// third state is the parameter, which does not change:
//
//	m = Beta1*m + (1-Beta1)*d; v = Beta2*v + (1-Beta2)*d*d
//	p = m / (sqrt(v) + Eps) + decay*parameter, or where EpsInside of sqrt(v + Eps)
type LAMB struct {
	Beta1, Beta2, Eps float64
	EpsInside         bool
}

// States are m, v and the parameter.
func (LAMB) States() int { return 3 }

// Inputs are those of all rules.
func (LAMB) Inputs() int { return CommonInputs }

// Adafactor writes a gradient by the root of its second moment over what p had:
//
//	v = beta2*v + (1-beta2)*(d*d + Eps); p = d / sqrt(v)
type Adafactor struct{ Eps float64 }

// Adafactor's further inputs; the first is Descent's, of the same row.
const (
	AdafactorBeta2 = DescentCount + iota // the second moment's decay rate at this update
	AdafactorCount
)

// States is v.
func (Adafactor) States() int { return 1 }

// Inputs are AdafactorCount.
func (Adafactor) Inputs() int { return AdafactorCount }
