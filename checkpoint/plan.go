package checkpoint

import (
	"cmp"
	"fmt"
	"slices"

	"trireme/tensor"
)

// held is an Item as other ranks hear of it.
type held struct {
	Kind  string       `json:"kind"`
	Name  string       `json:"name"`
	DType tensor.DType `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
	First int          `json:"first"`
	Count int          `json:"count"`
}

func describe(items []Item) []held {
	hs := make([]held, len(items))
	for i, it := range items {
		hs[i] = held{it.Kind, it.Name, it.DType, it.Shape, it.First, it.Count}
	}
	return hs
}

// planned is a tensor of the whole world and who writes which part of it.
type planned struct {
	held         // First and Count are those of the first rank that spoke of it
	parts []part // ascending, without gaps or overlaps
}

// part is a range of a tensor that one rank writes, out of one of its items.
type part struct{ rank, item, first, count int }

// partBytes is the size above which a range that several ranks hold is divided among them.
const partBytes = 16 << 20

// plan decides who writes what: every element once, by the holder with the least to write
// so far. All ranks come to the same plan, because it depends on nothing but world, which
// holds every rank's items. Tensors are in the order of their keys.
func plan(world [][]held) ([]planned, error) {
	tensors, err := collect(world)
	if err != nil {
		return nil, err
	}
	load := make([]int, len(world))
	for i := range tensors {
		if err := tensors[i].assign(load); err != nil {
			return nil, err
		}
	}
	return tensors, nil
}

// collect lists every tensor once; its parts are still all that anybody holds.
func collect(world [][]held) ([]planned, error) {
	var tensors []planned
	index := map[string]int{}
	for rank, hs := range world {
		for item, h := range hs {
			k := key(h.Kind, h.Name)
			i, ok := index[k]
			if !ok {
				i = len(tensors)
				index[k] = i
				tensors = append(tensors, planned{held: h})
			}
			t := &tensors[i]
			if t.Kind != h.Kind || t.DType != h.DType || !t.Shape.Equal(h.Shape) {
				return nil, fmt.Errorf("checkpoint: ranks disagree on %s: %s %v%v, and %s %v%v on rank %d", k, t.Kind, t.DType, t.Shape, h.Kind, h.DType, h.Shape, rank)
			}
			if h.Count > 0 {
				t.parts = append(t.parts, part{rank, item, h.First, h.Count})
			}
		}
	}
	slices.SortFunc(tensors, func(a, b planned) int { return cmp.Compare(key(a.Kind, a.Name), key(b.Kind, b.Name)) })
	return tensors, nil
}

// assign turns the parts that are held into the parts that are written. load counts the
// bytes that each rank has to write.
func (t *planned) assign(load []int) error {
	holders := t.parts
	slices.SortFunc(holders, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.rank, b.rank), cmp.Compare(a.item, b.item))
	})
	size := t.DType.Size()
	t.parts = nil
	elems := t.Shape.Elems()
	var open []part // holders of the element at
	for at := 0; at < elems; {
		open = slices.DeleteFunc(open, func(p part) bool { return p.first+p.count <= at })
		for len(holders) > 0 && holders[0].first <= at {
			open, holders = append(open, holders[0]), holders[1:]
		}
		end := min(elems, at+partBytes/size)
		if len(holders) > 0 {
			end = min(end, holders[0].first)
		}
		if len(open) == 0 {
			return fmt.Errorf("checkpoint: no rank holds elements [%d,%d) of %s %v", at, max(end, at+1), key(t.Kind, t.Name), t.Shape)
		}
		best := open[0]
		for _, p := range open {
			end = min(end, p.first+p.count)
			if load[p.rank] < load[best.rank] || load[p.rank] == load[best.rank] && p.rank < best.rank {
				best = p
			}
		}
		load[best.rank] += (end - at) * size
		if n := len(t.parts); n > 0 && t.parts[n-1].rank == best.rank && t.parts[n-1].item == best.item {
			t.parts[n-1].count += end - at
		} else {
			t.parts = append(t.parts, part{best.rank, best.item, at, end - at})
		}
		at = end
	}
	return nil
}
