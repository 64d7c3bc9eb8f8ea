package nn

import (
	"fmt"
	"math"

	"trireme/autograd"
	"trireme/tensor"
)

// Rotary describes rotary position embedding.
type Rotary struct {
	Dim         int // of a head
	Theta       float64
	MaxPosition int
	Scaling     *RopeScaling // nil for none
}

// RopeScaling stretches the low frequencies, as config.json's rope_scaling says. Type is
// llama3, linear or default.
type RopeScaling struct {
	Type                          string
	Factor                        float64
	LowFreqFactor, HighFreqFactor float64
	OriginalMaxPositionEmbeddings float64
}

// Frequencies are the angles per position [Dim/2], scaled.
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
	}
	return f, nil
}

// validate checks what the type needs. Factors are bounded so that frequencies stay finite.
func (s *RopeScaling) validate() error {
	within := func(v float64) bool { return v >= 1e-6 && v <= 1e6 }
	switch s.Type {
	case "default", "":
		return nil
	case "linear", "llama3":
	default:
		return fmt.Errorf("nn: rope_scaling type %q is not known (default, linear, llama3 are)", s.Type)
	}
	switch {
	case !within(s.Factor):
		return fmt.Errorf("nn: rope_scaling factor is %v: %s needs one between 1e-6 and 1e6", s.Factor, s.Type)
	case s.Type == "linear":
	case !(s.OriginalMaxPositionEmbeddings >= 1 && s.OriginalMaxPositionEmbeddings <= 1e12):
		return fmt.Errorf("nn: rope_scaling original_max_position_embeddings is %v: llama3 needs a context", s.OriginalMaxPositionEmbeddings)
	case !within(s.LowFreqFactor) || !within(s.HighFreqFactor) || s.HighFreqFactor <= s.LowFreqFactor:
		return fmt.Errorf("nn: rope_scaling low_freq_factor %v and high_freq_factor %v: llama3 needs the second to be larger, both between 1e-6 and 1e6", s.LowFreqFactor, s.HighFreqFactor)
	}
	return nil
}

// llama3 keeps wavelengths that the original context held many times over, divides those
// longer than it, and blends between (Llama 3.1 model card).
func (s *RopeScaling) llama3(f float64) float64 {
	wavelength := 2 * math.Pi / f
	turns := s.OriginalMaxPositionEmbeddings / wavelength
	switch {
	case turns > s.HighFreqFactor:
		return f
	case turns < s.LowFreqFactor:
		return f / s.Factor
	}
	smooth := (turns - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
	return (1-smooth)*f/s.Factor + smooth*f
}

// Tables are the cosines and sines of the first positions [positions Dim/2] on a backend.
func (r Rotary) Tables(b tensor.Backend, positions int) (autograd.RopeTable, error) {
	f, err := r.Frequencies()
	if err != nil {
		return autograd.RopeTable{}, err
	}
	half := len(f)
	cos, sin := make([]float32, positions*half), make([]float32, positions*half)
	for p := range positions {
		for i, w := range f {
			// Angles are rounded to float32 before the functions, as PyTorch computes them.
			a := float64(float32(p) * float32(w))
			cos[p*half+i], sin[p*half+i] = float32(math.Cos(a)), float32(math.Sin(a))
		}
	}
	t := autograd.RopeTable{Cos: b.New(tensor.Workspace, tensor.F32, positions, half), Sin: b.New(tensor.Workspace, tensor.F32, positions, half)}
	b.Upload(t.Cos, tensor.AsBytes(cos))
	b.Upload(t.Sin, tensor.AsBytes(sin))
	return t, nil
}
