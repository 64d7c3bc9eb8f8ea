package compose

import "trireme/tensor"

// Ops are the composites, each made of operations of a core.
type Ops struct{ c tensor.Core }

// NewOps are the composites of c.
func NewOps(c tensor.Core) Ops { return Ops{c} }

// NewBackend completes a core to a backend.
func NewBackend(c tensor.Core) tensor.Backend {
	return &struct {
		tensor.Core
		Ops
	}{c, NewOps(c)}
}
