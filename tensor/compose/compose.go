package compose

import "trireme/tensor"

// Ops are the composites, each made of operations of a core.
type Ops struct{ c tensor.Core }

// For are the composites of c.
func For(c tensor.Core) Ops { return Ops{c} }

// Of completes a core to a backend.
func Of(c tensor.Core) tensor.Backend {
	return &struct {
		tensor.Core
		Ops
	}{c, For(c)}
}
