package parallel

import (
	"fmt"

	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
)

// Placement is how a parameter lies along the axes of a mesh: the dimension that an axis divides. Along
// an axis that is not in it ranks hold the same. Replicate and Shard are in none: a flat of what is
// left is divided along Shard, whatever its dimensions.
type Placement map[Axis]int

// Placements are those of parameters, by name; a parameter that is not among them is whole.
type Placements map[string]Placement

// place gives every parameter its local part. How a rank's layers make up for what they do not hold
// is theirs.
func (m *Mesh) place(units []*nn.Unit, o Options) error {
	known := 0
	for _, u := range units {
		for _, p := range u.Params {
			how, ok := o.Placements[p.Name]
			if ok {
				known++
			}
			var err error
			if p.Local, err = m.local(p.Shape, how); err != nil {
				return fmt.Errorf("parallel: place %s %v: %w", p.Name, p.Shape, err)
			}
			if p.Frozen || p.Local.Equal(tensor.Whole(p.Shape)) {
				continue
			}
			by := setting(o.Optim, p).Optimizer
			if _, ok := optim.AsTensorwise(by); ok {
				return fmt.Errorf("parallel: place %s %v: its optimizer, %s, needs the whole of it", p.Name, p.Shape, by.Name())
			}
			if n := block(by); n > 1 {
				return fmt.Errorf("parallel: place %s %v: its optimizer keeps state of blocks of %d elements of the whole", p.Name, p.Shape, n)
			}
		}
	}
	if known < len(o.Placements) {
		return fmt.Errorf("parallel: %d parameters are placed, and the model has %d of them", len(o.Placements), known)
	}
	return nil
}

// local is this rank's part of a tensor of shape s: as even as it can be, outer axes first.
func (m *Mesh) local(s tensor.Shape, how Placement) (tensor.Box, error) {
	b := tensor.Whole(s)
	for a, d := range how {
		if a >= axes || a == Replicate || a == Shard || d < 0 || d >= len(s) {
			return b, fmt.Errorf("dimension %d cannot be divided along %v", d, a)
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
