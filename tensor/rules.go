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
	InputsOfAll
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
	AdamBias1 = InputsOfAll + iota // 1 - Beta1^t
	AdamBias2                      // 1 - Beta2^t
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
	SGDNew   = InputsOfAll + iota // what d is multiplied by: 1 - dampening, and 1 at the first update
	SGDCount                      //
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
func (Lion) Inputs() int { return InputsOfAll }

// Adagrad (Duchi et al. 2011, as torch.optim.Adagrad writes it):
//
//	d += decay*p
//	s += initial + d*d
//	p -= lr * d / (sqrt(s) + Eps)
type Adagrad struct{ Eps float64 }

// Adagrad's further input.
const (
	AdagradInitial = InputsOfAll + iota // what s begins with, at the first update; 0 at others
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
	AverageNew = InputsOfAll + iota // 1 - decay; 1 makes a the parameters
	AverageCount
)

// States is a.
func (Average) States() int { return 1 }

// Inputs are AverageCount.
func (Average) Inputs() int { return AverageCount }
