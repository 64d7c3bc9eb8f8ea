package compose

import "trireme/tensor"

// Ops are the composites over a core.
type Ops struct{ c tensor.Core }

func NewOps(c tensor.Core) Ops { return Ops{c} }

// NewBackend returns a backend of c and the composites.
func NewBackend(c tensor.Core) tensor.Backend {
	return &struct {
		tensor.Core
		Ops
	}{c, NewOps(c)}
}
