package autograd

import (
	"testing"

	"trireme/tensor"
)

// A part frees its intermediate values before the rest of its scope runs, and a product's backward frees a recomputed
// operand before it computes the operand's gradient.
func TestPartMemory(t *testing.T) {
	c := newCheck(t)
	const n, d, f = 4, 8, 12
	x, _ := c.leaf(n, d)
	gateUp, _ := c.leaf(2*f, d)
	down, _ := c.leaf(d, f)
	numbers := func() (live, peak int64) {
		u := c.b.Meter().Read()
		return u.Live[tensor.Activations] / 8, u.Peak[tensor.Activations] / 8
	}
	tape := NewTape(c.b, tensor.F64, true)
	y := tape.Scope(func() *Var {
		h := tape.Linear(x, []*Var{gateUp}, nil)
		y := tape.Part(func() *Var { return tape.Linear(tape.SwiGLU(h), []*Var{down}, nil) })
		if live, _ := numbers(); live != n*2*f+n*d {
			t.Errorf("after the part %d numbers are live, want those of h and y, %d", live, n*2*f+n*d)
		}
		return y
	})
	y.grad = &gradient{c.b.New(tensor.Activations, tensor.F64, n, d), 1}
	c.b.Copy(y.grad.t, y.Value)
	tape.close(y)
	c.b.Meter().ResetPeak()
	tape.Backward()
	x.grad.t.Release()
	if live, peak := numbers(); live != 0 || peak != n*(2*f+d+f) {
		t.Errorf("backward ends with %d live numbers, want 0; the peak is %d, want those of h, of y's gradient, and of SwiGLU's result or its gradient, %d", live, peak, n*(2*f+d+f))
	}
}

// The values of a part whose result is deferred live until the result is read.
func TestPartDeferred(t *testing.T) {
	c := newCheck(t)
	x, _ := c.leaf(4, 8)
	w, _ := c.leaf(8, 8)
	live := c.b.Meter().Read().LiveTotal
	tape := &Tape{b: c.b, dtype: tensor.F64, lazy: true}
	tape.close(tape.Scope(func() *Var {
		y := tape.Part(func() *Var {
			return tape.Add(tape.Linear(tape.Linear(x, []*Var{w}, nil), []*Var{w}, nil), x)
		})
		if y.deferred == nil {
			t.Fatal("the result is not deferred")
		}
		y.force()
		return y
	}))
	if now := c.b.Meter().Read().LiveTotal; now != live {
		t.Errorf("%d bytes are live after the scope, %d before", now, live)
	}
}
