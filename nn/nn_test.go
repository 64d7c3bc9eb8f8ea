package nn_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"trireme/autograd"
	"trireme/internal/backend/naive"
	"trireme/nn"
	"trireme/tensor"
)

// bed is a float64 backend with parameters.
type bed struct {
	*testing.T
	b     *naive.Backend
	rng   *rand.Rand
	grads map[*nn.Param]*tensor.Tensor // parameters with a gradient
}

func newBed(t *testing.T) *bed {
	return &bed{t, naive.New(), rand.New(rand.NewPCG(1, 2)), map[*nn.Param]*tensor.Tensor{}}
}

func (b *bed) random(shape ...int) *tensor.Tensor {
	x := b.b.New(tensor.Params, tensor.F64, shape...)
	for i := range tensor.Host[float64](x) {
		tensor.Host[float64](x)[i] = b.rng.NormFloat64()
	}
	return x
}

func (b *bed) ids(ids ...int32) *tensor.Tensor {
	x := b.b.New(tensor.Workspace, tensor.I32, len(ids))
	copy(tensor.Host[int32](x), ids)
	return x
}

// give sets random values and gradient destinations.
func (b *bed) give(ps ...*nn.Param) {
	for _, p := range ps {
		p.Value = b.random(p.Shape...)
		p.SetGradDst(func() (*tensor.Tensor, bool) {
			g, begun := b.grads[p]
			if !begun {
				g = b.b.New(tensor.Grads, tensor.F64, p.Shape...)
				b.grads[p] = g
			}
			return g, begun
		})
	}
}

// forward runs f on x without gradients.
func (b *bed) forward(x *tensor.Tensor, f func(*autograd.Tape, *autograd.Var) *autograd.Var) []float64 {
	return tensor.Host[float64](f(autograd.NewTape(b.b, tensor.F64, false), autograd.Const(x)).Value)
}

// near compares numbers.
func (b *bed) near(what string, got, want []float64) {
	b.Helper()
	if len(got) != len(want) {
		b.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= 1e-12*(1+math.Abs(want[i]))) {
			b.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// product is x [n d] times w^T, with w [o d], or times w [d o] if transposed.
func product(x, w []float64, n, d, o int, transposed bool) []float64 {
	y := make([]float64, n*o)
	for i := range n {
		for j := range o {
			for k := range d {
				at := j*d + k
				if transposed {
					at = k*o + j
				}
				y[i*o+j] += x[i*d+k] * w[at]
			}
		}
	}
	return y
}
