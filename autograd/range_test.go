package autograd

import (
	"slices"
	"testing"

	"trireme/tensor"
)

// TestInputIsNotChanged: what a pass over a part of a model begins with is another's: an operation that
// would write to it is refused, and it is there after the pass, with what it was.
func TestInputIsNotChanged(t *testing.T) {
	c := newCheck(t)
	value := c.random(3, 8)
	was := slices.Clone(tensor.Host[float64](value))
	for _, grad := range []bool{false, true} {
		tape := NewTape(c.b, tensor.F64, grad)
		x := tape.Input(value)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("gradients %v: a rotation in place of an input", grad)
				}
			}()
			tape.Rope(x, 8, 4, RopeTable{Cos: c.random(3, 2), Sin: c.random(3, 2), Positions: c.ints(3, 3)})
		}()
		y := tape.Scope(func() *Var { return tape.Tanh(x) }, x)
		if grad {
			dy := tape.alloc(3, 8)
			c.b.Fill(dy, 1)
			tape.Seed(y, dy)
			tape.Backward()
			tape.Gradient(x).Release()
		}
		if !slices.Equal(tensor.Host[float64](value), was) {
			t.Errorf("gradients %v: an input has changed", grad)
		}
	}
}
