package nn_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/autograd"
	"trireme/nn"
	"trireme/tensor"
)

// TestFillByParts checks that initial values do not depend on the shards, and that Init.Zero covers
// exactly its elements.
func TestFillByParts(t *testing.T) {
	b := newBed(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "elements")
		init := nn.Init{Kind: rapid.SampledFrom([]nn.InitKind{nn.Zeros, nn.Ones, nn.Normal}).Draw(t, "kind"), Std: 0.5}
		lo := rapid.IntRange(0, n).Draw(t, "first zero")
		init.Zero = [2]int{lo, rapid.IntRange(lo, n).Draw(t, "end of zeros")}
		p := nn.NewParam("model.w", init, n)
		fill := func(first, elems int) []float64 {
			x := b.b.New(tensor.Params, tensor.F64, elems)
			p.Fill(b.b, x, 9, first)
			return tensor.Host[float64](x)
		}
		whole := fill(0, n)
		var parts []float64
		for at := 0; at < n; {
			elems := rapid.IntRange(1, n-at).Draw(t, "part")
			parts = append(parts, fill(at, elems)...)
			at += elems
		}
		if !slices.Equal(whole, parts) {
			t.Fatalf("in parts %v, at once %v", parts, whole)
		}
		for i, v := range whole {
			inside := init.Zero[0] <= i && i < init.Zero[1]
			if zero := inside || init.Kind == nn.Zeros; zero != (v == 0) || !zero && init.Kind == nn.Ones && v != 1 {
				t.Fatalf("element %d is %v, zeros %v of kind %d", i, v, init.Zero, init.Kind)
			}
		}
	})
}

// TestNormal checks the deviation, and the dependence on seed and name.
func TestNormal(t *testing.T) {
	b := newBed(t)
	const n, std = 20000, 0.02
	draw := func(name string, seed uint64) []float64 {
		x := b.b.New(tensor.Params, tensor.F64, n)
		nn.NewParam(name, nn.Init{Kind: nn.Normal, Std: std}, n).Fill(b.b, x, seed, 0)
		return tensor.Host[float64](x)
	}
	a := draw("a", 1)
	mean, square := 0.0, 0.0
	for _, v := range a {
		mean, square = mean+v/n, square+v*v/n
	}
	if math.Abs(mean) > 4*std/math.Sqrt(n) || math.Abs(math.Sqrt(square)/std-1) > 0.02 {
		t.Errorf("mean %v, deviation %v, want 0 and %v", mean, math.Sqrt(square), std)
	}
	if !slices.Equal(a, draw("a", 1)) {
		t.Error("equal name and seed, but different values")
	}
	if slices.Equal(a, draw("b", 1)) || slices.Equal(a, draw("a", 2)) {
		t.Error("different name or seed, but equal values")
	}
}

func TestDecays(t *testing.T) {
	norm := nn.NewLayerNorm("n", 4, 1e-5)
	linear := nn.NewLinear("l", 4, 4, nn.Init{}).WithBias()
	for p, want := range map[*nn.Param]bool{norm.Weight: false, norm.Bias: false, linear.Weights[0]: true, linear.Biases[0]: false} {
		if p.Decays() != want {
			t.Errorf("%s decays: %v", p.Name, p.Decays())
		}
	}
	if got := nn.ScaledStd(0.02, 8); got != 0.02/4 {
		t.Errorf("scaled deviation %v", got)
	}
}

// TestDropoutKeys checks that keys depend on seed and module only.
func TestDropoutKeys(t *testing.T) {
	a, again, other := nn.NewDropout("h.0.mlp", 0.1), nn.NewDropout("h.0.mlp", 0.5), nn.NewDropout("h.1.mlp", 0.1)
	if a.P != 0.1 || a.Key(3) != again.Key(3) {
		t.Error("the key depends on more than name and seed")
	}
	if a.Key(3) == other.Key(3) || a.Key(3) == a.Key(4) {
		t.Error("two modules or two seeds share a key")
	}
}

// TestParamOutsideItsUnit checks that a layer whose parameter has no value panics with its name.
func TestParamOutsideItsUnit(t *testing.T) {
	b := newBed(t)
	l := nn.NewLinear("mlp.up_proj", 3, 2, nn.Init{}).WithBias()
	b.give(l.Weights...)
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "mlp.up_proj.bias") {
			t.Errorf("panic %q", p)
		}
	}()
	b.forward(b.random(1, 3), func(t *autograd.Tape, x *autograd.Var) *autograd.Var { return l.Forward(t, x) })
}
