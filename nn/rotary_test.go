package nn_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"trireme/nn"
	"trireme/tensor"
)

// TestFrequencies compares each scaling with numbers computed by hand from its paper's formula.
func TestFrequencies(t *testing.T) {
	plain := []float64{1, 0.1, 0.01, 0.001} // 10000^(-2i/8)
	// With 16 dimensions, pair i rotates 10^(-i/2) radians per position. Over 4096 positions pair
	// 2.62 rotates 32 times and pair 5.63 once: pairs up to 2 are kept, from 6 on divided by 4, and
	// interpolated in quarters between.
	yarn := func(divided func(i float64) float64) []float64 {
		f := make([]float64, 8)
		for i := range f {
			part := divided(float64(i))
			f[i] = math.Pow(10, -float64(i)/2) * (part/4 + 1 - part)
		}
		return f
	}
	rotations := func(i float64) float64 { return 4096 * math.Pow(10, -i/2) / (2 * math.Pi) }
	if at := 2.6180; math.Abs(rotations(at)/32-1) > 1e-3 {
		t.Fatalf("pair %v rotates %v times", at, rotations(at))
	}
	low, high := 2*math.Log10(4096/(32*2*math.Pi)), 2*math.Log10(4096/(2*math.Pi))
	long := nn.Rotary{Dim: 16, Theta: 10000, MaxPosition: 4096}
	for name, c := range map[string]struct {
		r    nn.Rotary
		s    *nn.RopeScaling
		want []float64
	}{
		"plain":   {nn.Rotary{Dim: 8, Theta: 10000}, nil, plain},
		"default": {nn.Rotary{Dim: 8, Theta: 10000}, &nn.RopeScaling{Type: "default", Factor: 3}, plain},
		"linear":  {nn.Rotary{Dim: 8, Theta: 10000}, &nn.RopeScaling{Type: "linear", Factor: 4}, []float64{0.25, 0.025, 0.0025, 0.00025}},
		// Rotations over the original context: 1000/2pi = 159 and 15.9 are kept, above 4; 1.59 is
		// interpolated at (1.59-1)/(4-1); 0.159 is divided by 8, below 1.
		"llama3": {nn.Rotary{Dim: 8, Theta: 10000}, &nn.RopeScaling{Type: "llama3", Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositionEmbeddings: 1000},
			[]float64{1, 0.1, 0.01 * (0.125 + 0.875*(5/math.Pi-1)/3), 0.001 / 8}},
		"yarn": {long, &nn.RopeScaling{Type: "yarn", Factor: 4}, yarn(func(i float64) float64 { return min(max((i-2)/4, 0), 1) })},
		"yarn of an original context": {nn.Rotary{Dim: 16, Theta: 10000, MaxPosition: 1 << 20}, &nn.RopeScaling{Type: "yarn", Factor: 4, OriginalMaxPositionEmbeddings: 4096},
			yarn(func(i float64) float64 { return min(max((i-2)/4, 0), 1) })},
		"yarn between pairs": {long, &nn.RopeScaling{Type: "yarn", Factor: 4, Fractional: true}, yarn(func(i float64) float64 { return min(max((i-low)/(high-low), 0), 1) })},
		"yarn of other betas": {long, &nn.RopeScaling{Type: "yarn", Factor: 4, BetaFast: 1, BetaSlow: 1, Fractional: true},
			yarn(func(i float64) float64 { return min(max((i-high)/0.001, 0), 1) })},
	} {
		c.r.Scaling = c.s
		got, err := c.r.Frequencies()
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i := range got {
			if math.Abs(got[i]/c.want[i]-1) > 1e-9 {
				t.Errorf("%s: pair %d rotates %v per position, want %v", name, i, got[i], c.want[i])
			}
		}
	}
}

// TestRotaryTables checks that rows are cosines and sines of position times frequency, scaled by
// yarn.
func TestRotaryTables(t *testing.T) {
	for name, c := range map[string]struct {
		s    *nn.RopeScaling
		gain float64
	}{
		"plain":                     {nil, 1},
		"linear":                    {&nn.RopeScaling{Type: "linear", Factor: 1}, 1},
		"yarn":                      {&nn.RopeScaling{Type: "yarn", Factor: math.E * math.E}, 1.2},
		"yarn that shortens":        {&nn.RopeScaling{Type: "yarn", Factor: 0.5}, 1},
		"yarn with its own gain":    {&nn.RopeScaling{Type: "yarn", Factor: 4, AttentionFactor: new(0.75)}, 0.75},
		"llama3 at an even context": {&nn.RopeScaling{Type: "llama3", Factor: 2, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositionEmbeddings: 64}, 1},
	} {
		b := newBed(t)
		r := nn.Rotary{Dim: 8, Theta: 10000, MaxPosition: 64, Scaling: c.s}
		f, err := r.Frequencies()
		if err != nil {
			t.Fatal(err)
		}
		table, err := r.Tables(b.b, 40)
		if err != nil {
			t.Fatal(err)
		}
		cos, sin := tensor.Host[float32](table.Cos), tensor.Host[float32](table.Sin)
		for p := range 40 {
			for i := range f {
				angle := float64(p) * f[i]
				if math.Abs(float64(cos[p*4+i])-c.gain*math.Cos(angle)) > 1e-5 || math.Abs(float64(sin[p*4+i])-c.gain*math.Sin(angle)) > 1e-5 {
					t.Fatalf("%s: position %d, pair %d: %v, %v", name, p, i, cos[p*4+i], sin[p*4+i])
				}
			}
		}
	}
}

func TestMaxPositions(t *testing.T) {
	for _, c := range []struct {
		s    *nn.RopeScaling
		want int
	}{
		{nil, 100}, {&nn.RopeScaling{Type: "linear", Factor: 4}, 100}, {&nn.RopeScaling{Type: "yarn", Factor: 4}, 400},
		{&nn.RopeScaling{Type: "yarn", Factor: 4, OriginalMaxPositionEmbeddings: 10}, 100}, {&nn.RopeScaling{Type: "yarn", Factor: 1e6, OriginalMaxPositionEmbeddings: 1e12}, 1 << 28},
	} {
		if got := (nn.Rotary{Dim: 8, Theta: 10000, MaxPosition: 100, Scaling: c.s}).MaxPositions(); got != c.want {
			t.Errorf("%+v: %d positions, want %d", c.s, got, c.want)
		}
	}
}

// TestScalingRefused checks that an error names each invalid number.
func TestScalingRefused(t *testing.T) {
	nan := math.NaN()
	good := map[string]nn.RopeScaling{
		"linear": {Type: "linear", Factor: 2},
		"llama3": {Type: "llama3", Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositionEmbeddings: 8192},
		"yarn":   {Type: "yarn", Factor: 4},
	}
	for _, c := range []struct {
		of, names string
		spoil     func(*nn.RopeScaling)
	}{
		{"linear", "type", func(s *nn.RopeScaling) { s.Type = "longrope" }},
		{"linear", "factor is 0", func(s *nn.RopeScaling) { s.Factor = 0 }},
		{"yarn", "factor is NaN", func(s *nn.RopeScaling) { s.Factor = nan }},
		{"llama3", "factor is +Inf", func(s *nn.RopeScaling) { s.Factor = math.Inf(1) }},
		{"llama3", "original_max_position_embeddings is 0", func(s *nn.RopeScaling) { s.OriginalMaxPositionEmbeddings = 0 }},
		{"yarn", "original_max_position_embeddings is -1", func(s *nn.RopeScaling) { s.OriginalMaxPositionEmbeddings = -1 }},
		{"llama3", "high_freq_factor 1", func(s *nn.RopeScaling) { s.HighFreqFactor = 1 }},
		{"llama3", "low_freq_factor 0", func(s *nn.RopeScaling) { s.LowFreqFactor = 0 }},
		{"yarn", "beta_slow 40", func(s *nn.RopeScaling) { s.BetaSlow = 40 }},
		{"yarn", "beta_fast -1", func(s *nn.RopeScaling) { s.BetaFast = -1 }},
		{"yarn", "attention_factor is 0", func(s *nn.RopeScaling) { s.AttentionFactor = new(0.0) }},
	} {
		s := good[c.of]
		r := nn.Rotary{Dim: 8, Theta: 10000, MaxPosition: 64, Scaling: &s}
		if f, err := r.Frequencies(); err != nil || slices.ContainsFunc(f, math.IsNaN) {
			t.Fatalf("%s: %v, %v", c.of, f, err)
		}
		c.spoil(&s)
		if _, err := r.Tables(newBed(t).b, 4); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v, want %q", c.of, err, c.names)
		}
	}
}
