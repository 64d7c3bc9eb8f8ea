package optim

import (
	"math"
	"slices"

	"trireme/internal/conf"
	"trireme/tensor"
	"trireme/tensor/compose"
)

// Muon orthogonalizes the momentum of hidden matrices by Newton-Schulz iterations (Jordan et al.
// 2024, as in torch.optim.Muon of torch 2.9, in bfloat16). Rest updates embeddings, heads, biases
// and norm weights.
type Muon struct {
	Momentum float64
	Nesterov bool
	// Coefficients are a, b and c of an iteration, x = a*x + (b*g + c*g*g)*x with g = x*x^T.
	Coefficients [3]float64
	Eps          float64 // least norm by which a momentum is divided
	Steps        int     // iterations
	// AdjustLR is original (sqrt(max(1, rows/columns)) times the learning rate), match_rms_adamw
	// (0.2*sqrt(max(rows, columns)) times) or none.
	AdjustLR AdjustLR
	Rest     Optimizer
}

// AdjustLR selects how Muon's learning rate depends on a matrix's shape.
type AdjustLR string

// The values; empty is original.
const (
	AdjustOriginal AdjustLR = "original"
	AdjustMatchRMS AdjustLR = "match_rms_adamw"
	AdjustNone     AdjustLR = "none"
)

var adjustments = []string{string(AdjustOriginal), string(AdjustMatchRMS), string(AdjustNone)}

// Choices lists the values.
func (AdjustLR) Choices() []string { return adjustments }

// UnmarshalText parses a value.
func (a *AdjustLR) UnmarshalText(text []byte) error {
	if !slices.Contains(adjustments, string(text)) {
		return conf.NotOneOf(string(text), adjustments...)
	}
	*a = AdjustLR(text)
	return nil
}

var _ Matrixwise = Muon{}

func (Muon) Name() string { return "muon" }

// For returns Muon for hidden matrices and Rest for others.
func (o Muon) For(p Param) Optimizer {
	if p.Hidden && len(p.Shape) == 2 {
		return o
	}
	return o.Rest
}

func (Muon) Slots() []Slot { return slots("momentum_buffer") }

func (Muon) Hyper(lr, weightDecay float64, _ int) []float64 {
	return []float64{tensor.InputLR: lr, tensor.InputDecay: weightDecay, tensor.DescentScale: 1}
}

// Direction is the momentum, or Nesterov's.
func (o Muon) Direction(b tensor.Backend, d *tensor.Tensor, s Slice, hyper, scalars *tensor.Tensor) {
	b.Update(tensor.Momentum{Beta: o.Momentum, Nesterov: o.Nesterov}, d, s.State, s.G, s.Ends, hyper, scalars)
}

// Precondition orthogonalizes a matrix. A tall one is multiplied from the right by the smaller Gram
// matrix, as its transpose would be from the left.
func (o Muon) Precondition(b tensor.Backend, m Matrix, _, _ *tensor.Tensor) {
	s := compose.NewScope(b)
	defer s.Release()
	rows, columns := m.D.Rows(), m.D.Width()
	n, tall := min(rows, columns), rows > columns
	x, y, z := s.New(tensor.BF16, rows, columns), m.D, s.New(tensor.F32, rows, columns)
	gram, square, scaled, step := s.New(tensor.BF16, n, n), s.New(tensor.F32, n, n), s.New(tensor.F32, n, n), s.New(tensor.BF16, n, n)
	var factors [3]*tensor.Tensor
	for i, c := range o.Coefficients {
		factors[i] = s.Scalar(tensor.F32, c)
	}

	// x = d / max(norm, eps)
	b.Copy(x, m.D)
	b.Binary(z, x, x, tensor.Mul)
	squares := s.New(tensor.F64, rows, 1)
	b.Reduce(squares, z, 1, tensor.Add, tensor.F64)
	norm := s.As(tensor.BF16, s.Unary(s.Reduce(squares, 0, tensor.Add), tensor.Sqrt))
	b.Binary(x, x, s.As(tensor.BF16, s.With(norm, tensor.Max, o.Eps)), tensor.Div)

	for range o.Steps {
		b.MatMul(gram, x, x, tensor.MatMulOp{TransA: tall, TransB: !tall})
		b.MatMul(square, gram, gram, tensor.MatMulOp{})
		b.Binary(square, square, factors[2], tensor.Mul)
		b.Binary(scaled, gram, factors[1], tensor.Mul)
		b.Binary(step, square, scaled, tensor.Add)
		if tall {
			b.MatMul(y, x, step, tensor.MatMulOp{})
		} else {
			b.MatMul(y, step, x, tensor.MatMulOp{})
		}
		b.Binary(z, x, factors[0], tensor.Mul)
		b.Binary(x, y, z, tensor.Add)
	}
	b.Binary(m.D, x, s.Scalar(tensor.F32, o.ratio(rows, columns)), tensor.Mul)
}

// ratio returns the learning rate factor of a matrix.
func (o Muon) ratio(rows, columns int) float64 {
	switch o.AdjustLR {
	case AdjustNone:
		return 1
	case AdjustMatchRMS:
		return 0.2 * math.Sqrt(float64(max(rows, columns)))
	}
	return math.Sqrt(max(1, float64(rows)/float64(columns)))
}

// Apply follows the direction with decoupled weight decay.
func (Muon) Apply(b tensor.Backend, d *tensor.Tensor, s Slice, rates, scalars *tensor.Tensor) {
	descend(b, 0, d, s, nil, rates, scalars)
}
