package cli

import (
	"math"
	"testing"

	"trireme/planner"
)

// The rates of a reference step predict its seconds; with products that are faster alone than in a step, a tenth of it
// remains for the rest.
func TestRatesOf(t *testing.T) {
	work := planner.Work{Products: 9e9, Attention: 1e9, Bytes: 4e8, State: 1e8}
	for _, products := range []float64{50e9, 20e9} {
		step := stepSeconds{all: 0.3, optimizer: 0.01}
		r := ratesOf(work, products, step)
		got := (work.Products+work.Attention)/r.Products + work.Bytes/r.Operands + work.State/r.State
		if math.Abs(got-step.all) > 1e-12 || r.State != 1e10 || r.Operands <= 0 {
			t.Errorf("products of %v FLOP/s: %+v predict %v s", products, r, got)
		}
	}
}
