package convert

import (
	"fmt"
	"slices"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/internal/pickle"
	"trireme/internal/torchfile"
	"trireme/tensor"
)

// zeroParam is a parameter of a group.
type zeroParam struct {
	name  string
	shape tensor.Shape
}

// shapes returns the parameters of each group, in the order of the flat partitions.
func (z *zero) shapes() ([][]zeroParam, error) {
	v, _ := z.models[0].Get("param_shapes")
	l, ok := v.(*pickle.List)
	if d, one := v.(*pickle.Dict); one { // older versions have one group
		l, ok = &pickle.List{Items: []any{d}}, true
	}
	if !ok {
		return nil, fault.Try(fmt.Errorf("convert: %s: the model states have no param_shapes", z.dir), "a checkpoint of DeepSpeed 0.4 or newer")
	}
	var groups [][]zeroParam
	for _, g := range l.Items {
		d, ok := g.(*pickle.Dict)
		if !ok {
			return nil, fmt.Errorf("convert: %s: param_shapes has %s", z.dir, describe(g))
		}
		ps, err := shapesOf(d)
		if err != nil {
			return nil, fmt.Errorf("convert: %s: %w", z.dir, err)
		}
		groups = append(groups, ps)
	}
	return groups, nil
}

func shapesOf(d *pickle.Dict) (ps []zeroParam, err error) {
	for i, k := range d.Keys {
		name, ok := k.(string)
		shape, whole := pickle.Ints(d.Values[i])
		if !ok || !whole || !validShape(shape) {
			return nil, fmt.Errorf("parameter %v has no valid shape", k)
		}
		ps = append(ps, zeroParam{name, shape})
	}
	return ps, nil
}

// master is the flat float32 partition of a rank and group; nil if there is none.
func (z *zero) master(rank, group int) *torchfile.Tensor {
	key := "single_partition_of_fp32_groups"
	if z.stage == 3 {
		key = "fp32_flat_groups"
	}
	v, _ := z.optims[rank].Get(key)
	return item(v, group)
}

func item(v any, i int) *torchfile.Tensor {
	l, ok := v.(*pickle.List)
	if t, one := v.(pickle.Tuple); one {
		l, ok = &pickle.List{Items: t}, true
	}
	if !ok || i >= len(l.Items) {
		return nil
	}
	t, _ := l.Items[i].(*torchfile.Tensor)
	return t
}

// slot is the flat partition of an optimizer slot; nil if there is none.
func (z *zero) slot(rank, group int, name string) *torchfile.Tensor {
	var d any = z.optims[rank]
	for _, keys := range [][]any{{"base_optimizer_state", "optimizer_state_dict"}, {"state"}, {int64(group)}, {name}} {
		in, ok := d.(*pickle.Dict)
		if !ok {
			return nil
		}
		if d = first(in, keys); d == nil {
			return nil
		}
	}
	t, _ := d.(*torchfile.Tensor)
	return t
}

// first returns the value of the first of keys that d has.
func first(d *pickle.Dict, keys []any) any {
	for _, key := range keys {
		for i, k := range d.Keys {
			if k == key {
				return d.Values[i]
			}
		}
	}
	return nil
}

// addFlat adds a tensor per parameter from flat partitions, which flat returns.
func (z *zero) addFlat(kind string, groups [][]zeroParam, flat func(rank, group int) *torchfile.Tensor) error {
	if z.stage == 3 {
		return z.addSplit(kind, slices.Concat(groups...), flat)
	}
	for g, ps := range groups {
		var whole spans
		for rank := range z.ranks {
			t := flat(rank, g)
			if t == nil {
				return fmt.Errorf("convert: %s: rank %d has no %s of group %d", z.dir, rank, kind, g)
			}
			if t.Type != "F32" {
				return fmt.Errorf("convert: %s: rank %d: %s of group %d is %v, not float32", z.dir, rank, kind, g, t)
			}
			whole = append(whole, span{t, 0, t.Elems()})
		}
		at := 0
		for _, p := range ps {
			n := p.shape.Elems()
			if n > whole.elems()-at {
				return fmt.Errorf("convert: %s: the partitions of group %d end within %s", z.dir, g, p.name)
			}
			z.tensor(kind, p, whole.slice(at, n))
			at += n
		}
		// DeepSpeed pads a group to a multiple of twice the ranks; without padding it is exact.
		if align := 2 * z.ranks; roundUp(at, align) != roundUp(whole.elems(), align) {
			return fmt.Errorf("convert: %s: group %d has %d elements in its partitions, its parameters have %d", z.dir, g, whole.elems(), at)
		}
	}
	return nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// addSplit is addFlat for stage 3: each parameter is split over the ranks.
func (z *zero) addSplit(kind string, ps []zeroParam, flat func(rank, group int) *torchfile.Tensor) error {
	parts := make([]spans, z.ranks)
	for rank := range parts {
		for g := 0; ; g++ {
			t := flat(rank, g)
			if t == nil {
				break
			}
			if t.Type != "F32" {
				return fmt.Errorf("convert: %s: rank %d: %s of group %d is %v, not float32", z.dir, rank, kind, g, t)
			}
			parts[rank] = append(parts[rank], span{t, 0, t.Elems()})
		}
		if parts[rank].elems() != parts[0].elems() {
			return fmt.Errorf("convert: %s: rank %d has %d elements of %s, rank 0 has %d", z.dir, rank, parts[rank].elems(), kind, parts[0].elems())
		}
	}
	at, have := 0, parts[0].elems()
	for _, p := range ps {
		n := p.shape.Elems()
		per := (n + z.ranks - 1) / z.ranks
		if per > have-at {
			return fmt.Errorf("convert: %s: the partitions of %s end within %s", z.dir, kind, p.name)
		}
		var whole spans
		for rank := range z.ranks {
			if own := min(per, n-rank*per); own > 0 {
				whole = append(whole, parts[rank].slice(at, own)...)
			}
		}
		z.tensor(kind, p, whole)
		at += per
	}
	if at != have {
		return fmt.Errorf("convert: %s: the partitions have %d elements of %s, the parameters need %d", z.dir, have, kind, at)
	}
	return nil
}

func (z *zero) tensor(kind string, p zeroParam, from spans) {
	z.s.Tensors = append(z.s.Tensors, Tensor{kind, p.name, "F32", p.shape, func(first, count int, dst []byte) error {
		return from.read(first, count, 4, dst)
	}})
}

// addFrozen adds parameters that do not train: whole ones under stages 1 and 2, parts of all ranks
// under stage 3.
func (z *zero) addFrozen() error {
	v, _ := z.models[0].Get("frozen_param_shapes")
	d, ok := v.(*pickle.Dict)
	if !ok {
		return nil
	}
	ps, err := shapesOf(d)
	if err != nil {
		return fmt.Errorf("convert: %s: %w", z.dir, err)
	}
	for _, p := range ps {
		var whole spans
		var as safetensors.Type
		left := p.shape.Elems()
		for rank, m := range z.models {
			v, _ := m.Get("frozen_param_fragments")
			fragments, ok := v.(*pickle.Dict)
			if !ok {
				return fmt.Errorf("convert: %s: rank %d has no frozen_param_fragments", z.dir, rank)
			}
			v, _ = fragments.Get(p.name)
			t, ok := v.(*torchfile.Tensor)
			if !ok || as != "" && t.Type != as {
				return fmt.Errorf("convert: %s: rank %d has no %s", z.dir, rank, p.name)
			}
			as = t.Type
			if n := min(left, t.Elems()); n > 0 {
				whole, left = append(whole, span{t, 0, n}), left-n
			}
		}
		if left > 0 {
			return fmt.Errorf("convert: %s: %d elements of %s are missing", z.dir, left, p.name)
		}
		z.s.Tensors = append(z.s.Tensors, Tensor{checkpoint.Param, p.name, as, p.shape, func(first, count int, dst []byte) error {
			return whole.read(first, count, as.Size(), dst)
		}})
	}
	return nil
}

// addBuffers adds the buffers in the module's state dict.
func (z *zero) addBuffers() {
	v, _ := z.models[0].Get("buffer_names")
	names, ok := v.(*pickle.List)
	v, _ = z.models[0].Get("module")
	module, ok2 := v.(*pickle.Dict)
	if !ok || !ok2 {
		return
	}
	for _, n := range names.Items {
		name, _ := n.(string)
		v, _ := module.Get(name)
		if t, ok := v.(*torchfile.Tensor); ok {
			z.s.Tensors = append(z.s.Tensors, Tensor{checkpoint.Param, name, t.Type, t.Shape, t.ReadRange})
		}
	}
}

// addTied adds the further names of shared parameters.
func (z *zero) addTied() error {
	v, _ := z.models[0].Get("shared_params")
	d, ok := v.(*pickle.Dict)
	if !ok {
		return nil
	}
	for i, k := range d.Keys {
		alias, ok := k.(string)
		name, ok2 := d.Values[i].(string)
		if !ok || !ok2 {
			return fmt.Errorf("convert: %s: shared_params is not a dict of names", z.dir)
		}
		for _, t := range slices.Clone(z.s.Tensors) {
			if t.Name == name && t.Kind == checkpoint.Param {
				t.Name = alias
				z.s.Tensors = append(z.s.Tensors, t)
			}
		}
	}
	return nil
}
