package parallel

import (
	"fmt"

	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
)

// Placement is a parameter's placement on the mesh: the tensor dimension that each axis shards. Axes that
// are absent replicate it. Replicate and Shard cannot occur: flats are sharded along Shard by elements.
type Placement map[Axis]int

// Placements has placements by parameter name; other parameters are replicated.
type Placements map[string]Placement

// setLocal sets Param.Local of every parameter. The layers are responsible for communication along the
// axes.
func (m *Mesh) setLocal(units []*nn.Unit, o Options) error {
	known := 0
	for _, u := range units {
		for _, p := range u.Params {
			how, ok := o.Placements[p.Name]
			if ok {
				known++
			}
			var err error
			if p.Local, err = m.localBox(p.Shape, how); err != nil {
				return fmt.Errorf("parallel: placement of %s %v: %w", p.Name, p.Shape, err)
			}
			if p.Frozen || p.Local.Equal(tensor.FullBox(p.Shape)) {
				continue
			}
			by := setting(o.Optim, p).Optimizer
			if _, ok := optim.AsTensorwise(by); ok {
				return fmt.Errorf("parallel: placement of %s %v: its optimizer, %s, needs the whole parameter", p.Name, p.Shape, by.Name())
			}
			if n := block(by); n > 1 {
				return fmt.Errorf("parallel: placement of %s %v: its optimizer keeps state per block of %d elements of the whole parameter", p.Name, p.Shape, n)
			}
		}
	}
	if known < len(o.Placements) {
		return fmt.Errorf("parallel: %d parameters have a placement, but the model has only %d of them", len(o.Placements), known)
	}
	return nil
}

// localBox returns this rank's box of a tensor of shape s, split as evenly as possible, outer axes first.
func (m *Mesh) localBox(s tensor.Shape, how Placement) (tensor.Box, error) {
	b := tensor.FullBox(s)
	for a, d := range how {
		if a >= axes || a == Replicate || a == Shard || d < 0 || d >= len(s) {
			return b, fmt.Errorf("cannot shard dimension %d along %v", d, a)
		}
	}
	for a := range axes {
		if d, ok := how[a]; ok {
			n, ranks, at := b.Sizes[d], m.Size(a), m.Coordinate(a)
			b = b.Slice(d, n*at/ranks, n*(at+1)/ranks)
		}
	}
	return b, nil
}
