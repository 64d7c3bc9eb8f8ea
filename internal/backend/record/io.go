package record

import (
	"maps"
	"slices"
)

// Returned reports whether the buffer has contents after the program that it creates.
func (k Kind) Returned() bool { return k == State || k == "output" }

// Uploads are the destinations of the inputs, in order.
func (p *Program) Uploads() (vs []View) {
	for i := range p.Ops {
		if p.Ops[i].kind == upload {
			vs = append(vs, p.Ops[i].Args[0].Views[0])
		}
	}
	return vs
}

// Axes are the axes of all coordinates, sorted.
func (p *Program) Axes() []string {
	axes := map[string]bool{}
	for i := range p.Ops {
		for _, a := range p.Ops[i].Args {
			for _, v := range a.Views {
				if v.Buffer >= 0 && v.Axis != "" {
					axes[v.Axis] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(axes))
}

// SetResult gives the step the function that waits for result i.
func (r *Recording) SetResult(i int, wait func() []byte) { *r.results[i] = wait }
