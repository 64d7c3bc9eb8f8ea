package record

import (
	"cmp"
	"slices"
)

// operand is a slot of a loop's body.
type operand struct {
	slot          // of iteration 0
	op, index int // in the body, and among the operation's slots

	// One of the two, unless the tensor is nil.
	chain  *chain  // another temporary in each iteration
	extent *extent // one buffer

	shift int // with a chain: index of the buffer in iteration 0
}

// chain is temporaries of one size in a row. In a loop, an operand with shift s uses bufs[s+i] in
// iteration i. A stack is a chain of the whole program.
type chain struct {
	bufs   map[int]int // by index; none is missing
	lo, hi int         // indices are in [lo, hi)
	stack  bool        // else Temp or Carry

	fixed map[int]bool // buffers that operands without a chain use in the loop
}

func newChain() *chain { return &chain{bufs: map[int]int{}, fixed: map[int]bool{}} }

// put sets the buffer at an index. It reports whether none, or the same one, was there.
func (c *chain) put(index, buf int) bool {
	if was, ok := c.bufs[index]; ok {
		return was == buf
	}
	if len(c.bufs) == 0 {
		c.lo, c.hi = index, index+1
	}
	c.bufs[index], c.lo, c.hi = buf, min(c.lo, index), max(c.hi, index+1)
	return true
}

// extent is a range of a buffer that some operands of a loop use; it moves each iteration.
type extent struct {
	buffer        int
	lo, hi, moves int // in bytes, in iteration 0; moves is the distance to the next iteration's
	whole         bool
	write         bool
	op            int // of the first operand
}

// accept plans w's loop. It returns -1, or an operation at which the iterations differ. If the memory
// of the loop differs between iterations, parts is the number of loops that its iterations would need.
func (r *roller) accept(w *window) (differs, parts int) {
	*w = window{start: w.start, period: w.period, count: w.count}
	for k := range w.period {
		for j, s := range r.slots[w.start+k] {
			w.operands = append(w.operands, operand{slot: s, op: k, index: j})
		}
	}
	defer func() {
		for _, c := range w.chains {
			for _, b := range c.bufs {
				r.chainOf[b] = nil
			}
		}
	}()
	for _, plan := range []func(*window) int{r.planChains, r.planExtents, r.planStreams} {
		if differs = plan(w); differs >= 0 {
			return differs, 0
		}
	}
	return r.planStacks(w)
}

// in is an operand in iteration i.
func (r *roller) in(w *window, x *operand, i int) slot {
	return r.slots[w.start+i*w.period+x.op][x.index]
}

// planChains finds the chains of w.
func (r *roller) planChains(w *window) int {
	for k := range w.operands {
		x := &w.operands[k]
		if x.Buffer < 0 || x.Buffer == r.in(w, x, 1).Buffer {
			continue
		}
		var zero int
		for i := 0; i < w.count && x.chain == nil; i++ {
			if b := r.in(w, x, i).Buffer; r.chainOf[b] != nil {
				x.chain, zero = r.chainOf[b], r.indexOf[b]-i
			}
		}
		if x.chain == nil {
			x.chain = newChain()
			w.chains = append(w.chains, x.chain)
		}
		for i := range w.count {
			if !r.chain(w, x.chain, zero+i, r.in(w, x, i).Buffer) {
				return w.start + i*w.period + x.op
			}
		}
	}
	w.chains = slices.DeleteFunc(w.chains, func(c *chain) bool { return len(c.bufs) == 0 })
	for k := range w.operands {
		if x := &w.operands[k]; x.chain != nil {
			x.chain = r.chainOf[x.Buffer]
			x.shift = r.indexOf[x.Buffer] - x.chain.lo
		}
	}
	return -1
}

// chain adds a buffer to c at an index, with the other ones of its chain. It reports whether that is
// possible.
func (r *roller) chain(w *window, c *chain, index, buf int) bool {
	other := r.chainOf[buf]
	switch other {
	case nil:
		if !c.put(index, buf) {
			return false
		}
		r.chainOf[buf], r.indexOf[buf] = c, index
		return true
	case c:
		return r.indexOf[buf] == index
	}
	by := index - r.indexOf[buf]
	for i := other.lo; i < other.hi; i++ {
		if !c.put(i+by, other.bufs[i]) {
			return false
		}
	}
	for i, b := range other.bufs {
		r.chainOf[b], r.indexOf[b] = c, i+by
	}
	clear(other.bufs)
	return true
}

// planExtents finds the parts of buffers that w's operands use, and checks that what an operand writes
// is not another one's in the same iteration.
func (r *roller) planExtents(w *window) int {
	byBuffer := map[int][]*operand{}
	var order []int
	for k := range w.operands {
		x := &w.operands[k]
		if x.Buffer < 0 || x.chain != nil {
			continue
		}
		if c := r.chainOf[x.Buffer]; c != nil { // another operand uses it in some iteration
			c.fixed[x.Buffer] = true
			for m := range w.operands {
				y := &w.operands[m]
				i := r.indexOf[x.Buffer] - c.lo - y.shift
				if y.chain == c && i >= 0 && i < w.count && (x.write || y.write) {
					return w.start + i*w.period + y.op
				}
			}
		}
		if byBuffer[x.Buffer] == nil {
			order = append(order, x.Buffer)
		}
		byBuffer[x.Buffer] = append(byBuffer[x.Buffer], x)
	}
	for _, b := range order {
		parts := r.extents(w, byBuffer[b])
		for i, p := range parts {
			for _, q := range parts[:i] {
				for k := 0; k < w.count && (p.write || q.write); k++ {
					if p.lo+k*p.moves < q.hi+k*q.moves && q.lo+k*q.moves < p.hi+k*p.moves {
						return w.start + k*w.period + p.op
					}
				}
			}
		}
	}
	return -1
}

// extents sets the extents of operands of one buffer: the whole buffer if none moves, else neighbors that
// move together, up to the distance that they move.
func (r *roller) extents(w *window, xs []*operand) (all []*extent) {
	ranges := make([]extent, len(xs))
	moving := false
	for i, x := range xs {
		lo, hi := x.bytes()
		ranges[i] = extent{buffer: x.Buffer, lo: lo, hi: hi, moves: (r.in(w, x, 1).Offset - x.Offset) * x.DType.Size(), write: x.write, op: x.op}
		moving = moving || ranges[i].moves != 0
	}
	if !moving {
		whole := &extent{buffer: xs[0].Buffer, hi: r.p.Buffers[xs[0].Buffer].Size, whole: true}
		for _, x := range xs {
			x.extent = whole
		}
		return nil
	}
	order := make([]int, len(xs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(ranges[a].moves, ranges[b].moves), cmp.Compare(ranges[a].lo, ranges[b].lo))
	})
	for _, i := range order {
		x := ranges[i]
		if n := len(all) - 1; n >= 0 && all[n].moves == x.moves {
			if p := all[n]; x.lo < p.hi || max(p.hi, x.hi)-p.lo <= max(x.moves, -x.moves) {
				p.hi, p.write = max(p.hi, x.hi), p.write || x.write
				xs[i].extent = p
				continue
			}
		}
		all = append(all, &x)
		xs[i].extent = &x
	}
	return all
}

// bytes is the range of a view, on all ranks.
func (v *View) bytes() (lo, hi int) {
	first, n := v.Span()
	return first * v.DType.Size(), (first + n) * v.DType.Size()
}

// planStreams sets w's streams.
func (r *roller) planStreams(w *window) int {
	all := map[uint64][]uint64{}
	for k := range w.period {
		for j, first := range r.streams[w.start+k] {
			own := make([]uint64, w.count)
			for i := range own {
				own[i] = r.streams[w.start+i*w.period+k][j]
				if others := all[first]; others != nil && others[i] != own[i] {
					return w.start + i*w.period + k
				}
			}
			all[first] = own
		}
	}
	for first, own := range all {
		if !slices.ContainsFunc(own, func(s uint64) bool { return s != first }) {
			delete(all, first)
		}
	}
	w.streams = all
	return -1
}
