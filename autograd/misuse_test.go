package autograd

import (
	"fmt"
	"strings"
	"testing"

	"trireme/tensor"
)

// TestMissingOperands checks that a panic names what a network has not passed.
func TestMissingOperands(t *testing.T) {
	c := newCheck(t)
	for want, f := range map[string]func(*Tape){
		"positions": func(tape *Tape) {
			tape.Rope(Const(c.random(3, 8)), 8, 4, RopeTable{Cos: c.random(3, 2), Sin: c.random(3, 2)})
		},
		"bounds of sequences": func(tape *Tape) {
			tape.Attention(Const(c.random(3, 12)), nil, tensor.AttentionParams{Heads: 1, KVHeads: 1, E: 4, Scale: 1})
		},
		"not all-gathered": func(tape *Tape) {
			tape.LinearCrossEntropy(c.random(1), Const(c.random(3, 4)), &Var{}, nil, Labels{Targets: c.ints(3, 3)})
		},
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, want) || !strings.Contains(p, "try: ") {
					t.Errorf("panic %q without %q", p, want)
				}
			}()
			f(NewTape(c.b, tensor.F64, false))
		}()
	}
}
