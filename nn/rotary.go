package nn

import (
	"fmt"
	"math"

	"trireme/autograd"
	"trireme/fault"
	"trireme/tensor"
)

// Rotary configures rotary position embedding.
type Rotary struct {
	Dim         int // of a head
	Theta       float64
	MaxPosition int
	Scaling     *RopeScaling // nil for none
}

// RopeScaling extends the context, like rope_scaling in config.json. Type is llama3, yarn, linear
// or default.
type RopeScaling struct {
	Type                          string
	Factor                        float64
	LowFreqFactor, HighFreqFactor float64 // of llama3
	OriginalMaxPositionEmbeddings float64 // of llama3 and yarn; 0 is Rotary.MaxPosition for yarn

	// Of yarn: BetaFast and BetaSlow are rotations over the original context above which a
	// frequency is kept and below which it is divided by Factor (0 is 32 and 1). AttentionFactor
	// scales cosines and sines (nil is 0.1 ln(Factor) + 1). Fractional does not round the ramp's
	// bounds to pairs.
	BetaFast, BetaSlow float64
	AttentionFactor    *float64
	Fractional         bool
}

// Frequencies are the scaled angles per position [Dim/2].
func (r Rotary) Frequencies() ([]float64, error) {
	f := make([]float64, r.Dim/2)
	for i := range f {
		f[i] = math.Pow(r.Theta, -float64(2*i)/float64(r.Dim))
	}
	s := r.Scaling
	if s == nil {
		return f, nil
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	switch s.Type {
	case "default", "":
	case "linear":
		for i := range f {
			f[i] /= s.Factor
		}
	case "llama3":
		for i := range f {
			f[i] = s.llama3(f[i])
		}
	case "yarn":
		r.yarn(f)
	}
	return f, nil
}

// validate checks the settings that the type uses. Bounds keep frequencies finite.
func (s *RopeScaling) validate() error {
	within := func(v float64) bool { return v >= 1e-6 && v <= 1e6 }
	switch s.Type {
	case "default", "":
		return nil
	case "linear", "llama3", "yarn":
	default:
		return fault.Try(fmt.Errorf("nn: unknown rope_scaling type %q", s.Type), "a model with default, linear, llama3 or yarn")
	}
	context := s.OriginalMaxPositionEmbeddings
	switch {
	case !within(s.Factor):
		return fmt.Errorf("nn: rope_scaling factor is %v: %s needs 1e-6 to 1e6", s.Factor, s.Type)
	case s.Type == "linear":
	case !(context >= 1 && context <= 1e12) && !(s.Type == "yarn" && context == 0):
		return fmt.Errorf("nn: rope_scaling original_max_position_embeddings is %v: %s needs 1 to 1e12", context, s.Type)
	case s.Type == "yarn":
		return s.validateYarn()
	case !within(s.LowFreqFactor) || !within(s.HighFreqFactor) || s.HighFreqFactor <= s.LowFreqFactor:
		return fmt.Errorf("nn: rope_scaling low_freq_factor %v and high_freq_factor %v: llama3 needs the second to be larger, both 1e-6 to 1e6", s.LowFreqFactor, s.HighFreqFactor)
	}
	return nil
}

func (s *RopeScaling) validateYarn() error {
	fast, slow := s.betas()
	switch {
	case !(slow > 0 && slow <= fast && fast <= 1e6):
		return fmt.Errorf("nn: rope_scaling beta_fast %v and beta_slow %v: yarn needs beta_fast >= beta_slow > 0", fast, slow)
	case s.AttentionFactor != nil && !(*s.AttentionFactor > 0 && *s.AttentionFactor <= 1e3):
		return fmt.Errorf("nn: rope_scaling attention_factor is %v: must be positive and no more than 1000", *s.AttentionFactor)
	}
	return nil
}

// llama3 keeps high frequencies, divides low ones, and interpolates between (Llama 3.1 model card).
func (s *RopeScaling) llama3(f float64) float64 {
	wavelength := 2 * math.Pi / f
	rotations := s.OriginalMaxPositionEmbeddings / wavelength
	switch {
	case rotations > s.HighFreqFactor:
		return f
	case rotations < s.LowFreqFactor:
		return f / s.Factor
	}
	smooth := (rotations - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
	return (1-smooth)*f/s.Factor + smooth*f
}

func (s *RopeScaling) betas() (fast, slow float64) {
	fast, slow = s.BetaFast, s.BetaSlow
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	return fast, slow
}

// yarn interpolates between kept and divided frequencies, linearly over the pairs that rotate
// beta_fast to beta_slow times in the original context (Peng et al. 2023, section 3.2).
func (r Rotary) yarn(f []float64) {
	s := r.Scaling
	pair := func(rotations float64) float64 {
		return float64(r.Dim) * math.Log(r.context()/(rotations*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	fast, slow := s.betas()
	low, high := pair(fast), pair(slow)
	if !s.Fractional {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.Dim-1))
	if low == high {
		high += 0.001
	}
	for i := range f {
		divided := min(max((float64(i)-low)/(high-low), 0), 1)
		f[i] = divided*f[i]/s.Factor + (1-divided)*f[i]
	}
}

// gain scales cosines and sines, which keeps scores sharp in long contexts (Peng et al. 2023,
// section 3.4).
func (r Rotary) gain() float64 {
	s := r.Scaling
	switch {
	case s == nil || s.Type != "yarn":
		return 1
	case s.AttentionFactor != nil:
		return *s.AttentionFactor
	case s.Factor <= 1:
		return 1
	}
	return 0.1*math.Log(s.Factor) + 1
}

// MaxPositions is MaxPosition, or yarn's extended context if larger.
func (r Rotary) MaxPositions() int {
	s := r.Scaling
	if s == nil || s.Type != "yarn" {
		return r.MaxPosition
	}
	return max(r.MaxPosition, int(min(s.Factor*r.context(), 1<<28)))
}

// context is the original context length.
func (r Rotary) context() float64 {
	if c := r.Scaling.OriginalMaxPositionEmbeddings; c != 0 {
		return c
	}
	return float64(r.MaxPosition)
}

// Tables returns the cosines and sines [positions Dim/2].
func (r Rotary) Tables(b tensor.Backend, positions int) (autograd.RopeTable, error) {
	f, err := r.Frequencies()
	if err != nil {
		return autograd.RopeTable{}, err
	}
	half, gain := len(f), r.gain()
	t := autograd.RopeTable{Cos: b.New(tensor.Workspace, tensor.F32, positions, half), Sin: b.New(tensor.Workspace, tensor.F32, positions, half)}
	if tensor.IsMeta(b) {
		return t, nil
	}
	cos, sin := make([]float32, positions*half), make([]float32, positions*half)
	for p := range positions {
		for i, w := range f {
			// Rounded to float32 first, as in PyTorch.
			a := float64(float32(p) * float32(w))
			cos[p*half+i], sin[p*half+i] = float32(gain*math.Cos(a)), float32(gain*math.Sin(a))
		}
	}
	b.Upload(t.Cos, tensor.AsBytes(cos))
	b.Upload(t.Sin, tensor.AsBytes(sin))
	return t, nil
}
