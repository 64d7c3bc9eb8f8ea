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
	tensor.Box
}

func describe(items []Item) []held {
	hs := make([]held, len(items))
	for i, it := range items {
		hs[i] = held{it.Kind, it.Name, it.DType, it.Shape, it.Box}
	}
	return hs
}

// planned is a tensor of the whole world and who writes which part of it.
type planned struct {
	held         // the box is that of the first rank that spoke of it
	parts []part // each element once
}

// part is a box of a tensor that one rank writes: a run of the elements of one of its items.
type part struct {
	rank, item int
	box        tensor.Box
	at         int // its first element, in the item
}

// placed is a part that is a run of its tensor too: from element to on.
type placed struct {
	part
	to int
}

// runs are the part's runs of the whole tensor, as a file with whole tensors holds them.
func (p part) runs(s tensor.Shape) (out []placed) {
	all, at := tensor.FullBox(s), p.at
	for run := range p.box.Runs(p.box, all) {
		out = append(out, placed{part{p.rank, p.item, all.Range(run.Y, run.Y+run.N)[0], at}, run.Y})
		at += run.N
	}
	return out
}

// partBytes is the size above which a box that several ranks hold is divided among them.
const partBytes = 16 << 20

// plan decides who writes what: every element once, a box that several ranks hold by the one with
// the least to write so far. All ranks come to the same plan, because it depends on nothing but
// world, which holds every rank's items. Tensors are in the order of their keys.
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
			if h.Elems() > 0 {
				t.parts = append(t.parts, part{rank, item, h.Box, 0})
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
	t.parts = nil
	// In this order a box comes after those that its first element lies in.
	slices.SortFunc(holders, func(a, b part) int {
		return cmp.Or(slices.Compare(a.box.Offsets, b.box.Offsets), slices.Compare(b.box.Sizes, a.box.Sizes), cmp.Compare(a.rank, b.rank), cmp.Compare(a.item, b.item))
	})
	var before []tensor.Box // boxes that may meet those to come
	var w turn
	total := 0
	for len(holders) > 0 {
		box, n := holders[0].box, 1
		for n < len(holders) && holders[n].box.Equal(box) {
			n++
		}
		before = slices.DeleteFunc(before, func(o tensor.Box) bool { return slices.Compare(last(o), box.Offsets) < 0 })
		left := []tensor.Box{box}
		for _, o := range before {
			left = without(left, o)
		}
		for _, b := range left {
			total += b.Elems()
			t.write(b, holders[:n], load, &w)
		}
		before, holders = append(before, box), holders[n:]
	}
	if total == t.Shape.Elems() {
		return nil
	}
	missing := []tensor.Box{tensor.FullBox(t.Shape)}
	for _, p := range t.parts {
		missing = without(missing, p.box)
	}
	return fmt.Errorf("checkpoint: no rank holds %v of %s %v", missing[0], key(t.Kind, t.Name), t.Shape)
}

// last is the indices of a box's last element.
func last(b tensor.Box) []int {
	at := slices.Clone(b.Offsets)
	for d, size := range b.Sizes {
		at[d] += size - 1
	}
	return at
}

// turn is the rank that writes what several hold: boxes that follow one another, up to partBytes.
type turn struct {
	holders     []part
	best, bytes int // which of them; what it writes in this turn
}

// next is the holder that writes n bytes more.
func (w *turn) next(holders []part, n int, load []int) part {
	same := slices.EqualFunc(w.holders, holders, func(a, b part) bool { return a.rank == b.rank })
	if !same || w.bytes+n > partBytes {
		*w = turn{holders: holders}
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

// write has one of the ranks that hold a box write b, a part of it; a large b is divided among
// them.
func (t *planned) write(b tensor.Box, holders []part, load []int, w *turn) {
	size := t.DType.Size()
	pieces := []tensor.Box{b}
	if len(holders) > 1 {
		pieces = divide(b, partBytes/size)
	}
	for _, piece := range pieces {
		p := w.next(holders, piece.Elems()*size, load)
		for run := range piece.Runs(p.box, p.box) {
			t.parts = append(t.parts, part{p.rank, p.item, p.box.Range(run.X, run.X+run.N)[0], run.X})
		}
	}
}

// divide cuts a box into boxes of at most so many elements, along the first dimension that has more
// than one index and, where one of these is still too large, the next.
func divide(b tensor.Box, most int) []tensor.Box {
	n := b.Elems()
	d := slices.IndexFunc(b.Sizes, func(size int) bool { return size > 1 })
	if n <= most || d < 0 {
		return []tensor.Box{b}
	}
	row := n / b.Sizes[d]
	step := max(most/row, 1) * row
	var out []tensor.Box
	for lo := 0; lo < n; lo += step {
		out = append(out, divide(b.Range(lo, min(n, lo+step))[0], most)...)
	}
	return out
}

// without is what boxes leave of themselves outside of o.
func without(boxes []tensor.Box, o tensor.Box) (out []tensor.Box) {
	for _, b := range boxes {
		m, ok := b.Intersect(o)
		if !ok {
			out = append(out, b)
			continue
		}
		for d := range b.Sizes { // what lies before and after m, within m in the dimensions before
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
