package checkpoint

import (
	"cmp"
	"fmt"
	"slices"

	"trireme/tensor"
)

// held describes an Item to other ranks.
type held struct {
	Kind  string       `json:"kind"`
	Name  string       `json:"name"`
	DType tensor.DType `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
	tensor.Box
}

func describe(items []Item) []held {
	hs := make([]held, len(items))
	for i, it := range items {
		hs[i] = held{it.Kind, it.Name, it.DType, it.Shape, it.Box}
	}
	return hs
}

// planned is a tensor of all ranks with the rank that writes each part.
type planned struct {
	held         // the box is that of the first rank that listed the tensor
	parts []part // each element once
}

// part is a box that one rank writes: consecutive elements of one of its items.
type part struct {
	rank, item int
	box        tensor.Box
	at         int // its first element in the item
}

// placed is a part that is also consecutive in its tensor, from element to.
type placed struct {
	part
	to int
}

// runs returns the part's runs of consecutive elements in the full tensor.
func (p part) runs(s tensor.Shape) (out []placed) {
	all, at := tensor.FullBox(s), p.at
	for run := range p.box.Runs(p.box, all) {
		out = append(out, placed{part{p.rank, p.item, all.Range(run.Y, run.Y+run.N)[0], at}, run.Y})
		at += run.N
	}
	return out
}

// partBytes is the size above which a box that several ranks hold is split among them.
const partBytes = 16 << 20

// plan assigns every element to one writer: of the ranks that hold a box, the one with the least to
// write so far. world has every rank's items; the plan depends on nothing else, so it is equal on
// all ranks. Tensors are sorted by key. If some is true, world has some of the ranks, and elements may be missing.
func plan(world [][]held, some bool) ([]planned, error) {
	tensors, err := collect(world)
	if err != nil {
		return nil, err
	}
	load := make([]int, len(world))
	for i := range tensors {
		if err := tensors[i].assign(load, some); err != nil {
			return nil, err
		}
	}
	return tensors, nil
}

// collect lists every tensor once; its parts are all boxes that ranks hold.
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
			if h.Elems() > 0 {
				t.parts = append(t.parts, part{rank, item, h.Box, 0})
			}
		}
	}
	slices.SortFunc(tensors, func(a, b planned) int { return cmp.Compare(key(a.Kind, a.Name), key(b.Kind, b.Name)) })
	return tensors, nil
}

// assign replaces the parts that ranks hold by the parts they write. load counts the bytes each
// rank writes.
func (t *planned) assign(load []int, some bool) error {
	holders := t.parts
	t.parts = nil
	// A box follows the boxes that contain its first element.
	slices.SortFunc(holders, func(a, b part) int {
		return cmp.Or(slices.Compare(a.box.Offsets, b.box.Offsets), slices.Compare(b.box.Sizes, a.box.Sizes), cmp.Compare(a.rank, b.rank), cmp.Compare(a.item, b.item))
	})
	var before []tensor.Box // boxes that may overlap later ones
	var w writerRun
	total := 0
	for len(holders) > 0 {
		box, n := holders[0].box, 1
		for n < len(holders) && holders[n].box.Equal(box) {
			n++
		}
		before = slices.DeleteFunc(before, func(o tensor.Box) bool { return slices.Compare(last(o), box.Offsets) < 0 })
		left := []tensor.Box{box}
		for _, o := range before {
			left = subtract(left, o)
		}
		for _, b := range left {
			total += b.Elems()
			t.write(b, holders[:n], load, &w)
		}
		before, holders = append(before, box), holders[n:]
	}
	if some || total == t.Shape.Elems() {
		return nil
	}
	missing := []tensor.Box{tensor.FullBox(t.Shape)}
	for _, p := range t.parts {
		missing = subtract(missing, p.box)
	}
	return fmt.Errorf("checkpoint: no rank holds %v of %s %v", missing[0], key(t.Kind, t.Name), t.Shape)
}

// last returns the indices of a box's last element.
func last(b tensor.Box) []int {
	at := slices.Clone(b.Offsets)
	for d, size := range b.Sizes {
		at[d] += size - 1
	}
	return at
}

// writerRun keeps one writer for consecutive boxes of the same holders, up to partBytes.
type writerRun struct {
	holders     []part
	best, bytes int // its index in holders; bytes so far
}

// next returns the holder that writes the next n bytes.
func (w *writerRun) next(holders []part, n int, load []int) part {
	same := slices.EqualFunc(w.holders, holders, func(a, b part) bool { return a.rank == b.rank })
	if !same || w.bytes+n > partBytes {
		*w = writerRun{holders: holders}
		for i, p := range holders {
			if best := holders[w.best].rank; load[p.rank] < load[best] || load[p.rank] == load[best] && p.rank < best {
				w.best = i
			}
		}
	}
	w.bytes += n
	load[holders[w.best].rank] += n
	return holders[w.best]
}

// write assigns b, part of a box of the holders. A large b is split among them.
func (t *planned) write(b tensor.Box, holders []part, load []int, w *writerRun) {
	size := t.DType.Size()
	pieces := []tensor.Box{b}
	if len(holders) > 1 {
		pieces = split(b, partBytes/size)
	}
	for _, piece := range pieces {
		p := w.next(holders, piece.Elems()*size, load)
		for run := range piece.Runs(p.box, p.box) {
			t.parts = append(t.parts, part{p.rank, p.item, p.box.Range(run.X, run.X+run.N)[0], run.X})
		}
	}
}

// split splits a box into boxes of up to limit elements, along the first dimension that is larger
// than 1, then the next.
func split(b tensor.Box, limit int) []tensor.Box {
	n := b.Elems()
	d := slices.IndexFunc(b.Sizes, func(size int) bool { return size > 1 })
	if n <= limit || d < 0 {
		return []tensor.Box{b}
	}
	row := n / b.Sizes[d]
	step := max(limit/row, 1) * row
	var out []tensor.Box
	for lo := 0; lo < n; lo += step {
		out = append(out, split(b.Range(lo, min(n, lo+step))[0], limit)...)
	}
	return out
}

// subtract returns boxes minus o.
func subtract(boxes []tensor.Box, o tensor.Box) (out []tensor.Box) {
	for _, b := range boxes {
		m, ok := b.Intersect(o)
		if !ok {
			out = append(out, b)
			continue
		}
		for d := range b.Sizes { // the parts before and after m, within m in earlier dimensions
			lo := m.Offsets[d] - b.Offsets[d]
			hi := lo + m.Sizes[d]
			if lo > 0 {
				out = append(out, b.Slice(d, 0, lo))
			}
			if hi < b.Sizes[d] {
				out = append(out, b.Slice(d, hi, b.Sizes[d]))
			}
			b = b.Slice(d, lo, hi)
		}
	}
	return out
}
