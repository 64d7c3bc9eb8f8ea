package autograd

import (
	"slices"
	"testing"

	"trireme/tensor"
)

// TestInputIsNotChanged checks that operations in place on an input panic, and that the pass leaves
// it unchanged.
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
					t.Errorf("gradients %v: in-place rotation of an input accepted", grad)
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
			t.Errorf("gradients %v: an input changed", grad)
		}
	}
}
