package nn

import "trireme/tensor"

// Dropout is one dropout module with probability P.
type Dropout struct {
	P      float64
	stream uint64
}

// NewDropout returns the module with the given name, as in Hugging Face's network. Names are unique
// in a model.
func NewDropout(name string, p float64) Dropout { return Dropout{p, stream(name)} }

// Key is the module's random stream in a run with this seed.
func (d Dropout) Key(seed uint64) tensor.RandKey {
	return tensor.RandKey{Seed: seed, Stream: d.stream}
}
