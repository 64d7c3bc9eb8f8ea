package parallel

import (
	"slices"

	"trireme/internal/disk"
	"trireme/tensor"
)

// stack is the flats of one layout and optimizer, in order of their units: the same parameters of a
// model's layers. In memory, state of one kind is one buffer, where flat k has the k-th of equal
// ranges, and constants of the layout exist once. A loop over the layers addresses them by k.
type stack []*flat

// stacks groups flats. Ranks have equal stacks.
func stacks(flats []*flat) (all []stack) {
	for _, f := range flats {
		i := slices.IndexFunc(all, func(s stack) bool { return s[0].alike(f) })
		if i < 0 {
			i = len(all)
			all = append(all, nil)
		}
		all[i] = append(all[i], f)
	}
	return all
}

func (f *flat) alike(o *flat) bool {
	if f.optimizer != o.optimizer || f.frozen != o.frozen || f.padded != o.padded || !slices.Equal(f.groups, o.groups) || !slices.Equal(f.starts, o.starts) {
		return false
	}
	for i, p := range f.params {
		if q := o.params[i]; !p.Shape.Equal(q.Shape) || !p.Local.Equal(q.Local) {
			return false
		}
	}
	return true
}

// newState returns a tensor of n elements per flat: ranges of one buffer or, offloaded, each in a
// part of the file at, which is created on first use.
func (e *Engine) newState(s stack, offload bool, at **disk.File, dir string, cat tensor.Category, dt tensor.DType, n int) (ts []*tensor.Tensor, err error) {
	if !offload {
		return split(e.b.New(cat, dt, len(s)*n), len(s)), nil
	}
	for range s {
		t, err := e.newOffloaded(at, dir, dt, n)
		if err != nil {
			return nil, err
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// split returns n equal parts of all.
func split(all *tensor.Tensor, n int) (parts []*tensor.Tensor) {
	each := all.Elems() / n
	for i := range n {
		parts = append(parts, all.Flat(i*each, (i+1)*each))
	}
	return parts
}
