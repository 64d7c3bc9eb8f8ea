package record

import (
	"cmp"
	"maps"
	"slices"
)

// lag is the number of iterations for which a chain's buffers are passed on in w.
func (c *chain) lag(w *window) int { return len(c.bufs) - w.count }

// shared returns which buffers of a chain w shares with the rest of the program, by index. Of the
// first ones, the content may be from before the loop, and of the last ones, it may be used after it.
func (r *roller) shared(w *window, c *chain) []bool {
	lag, writes := c.lag(w), len(c.bufs) // least shift of an operand that writes
	for i := range w.operands {
		if x := &w.operands[i]; x.chain == c && x.write {
			writes = min(writes, x.shift)
		}
	}
	out := make([]bool, len(c.bufs))
	for k := range out {
		b := c.bufs[c.lo+k]
		before, after := r.first[b] < w.start, r.last[b] >= w.end()
		switch {
		case before && k < lag: // the loop has a copy
			out[k] = (after || c.fixed[b]) && writes <= k
		case before || c.fixed[b]:
			out[k] = true
		case after:
			out[k] = k < w.count-1
		}
	}
	return out
}

// planStacks decides which of w's chains are stacks, and joins them to those of other windows.
func (r *roller) planStacks(w *window) (differs, parts int) {
	differs = -1
	for _, c := range w.chains {
		shared := r.shared(w, c)
		if c.stack = slices.Contains(shared, true); !c.stack {
			continue
		}
		if k, n := r.uneven(w, c, shared); n > parts {
			differs, parts = r.iteration(w, c, k), n
		}
	}
	if parts > 0 {
		return differs, parts
	}
	type was struct {
		stack *chain
		at    int
	}
	undo := map[int]was{}
	for _, c := range w.chains {
		if !c.stack {
			continue
		}
		joined, index := r.join(c)
		if joined == nil {
			for b, old := range undo {
				r.stackOf[b], r.stackAt[b] = old.stack, old.at
			}
			return r.iteration(w, c, index-c.lo), 0
		}
		for i, b := range joined.bufs {
			if _, ok := undo[b]; !ok {
				undo[b] = was{r.stackOf[b], r.stackAt[b]}
			}
			r.stackOf[b], r.stackAt[b] = joined, i
		}
	}
	return -1, 0
}

// uneven reports whether a stack of c's buffers would waste memory: it is as large as all of them and
// lives as long. It returns an index from which on the buffers differ, and the number of parts in
// which they do not; 0 for an even chain. shared is the result of that method.
func (r *roller) uneven(w *window, c *chain, shared []bool) (from, parts int) {
	lag := c.lag(w)
	inner := shared[min(lag, w.count-1) : w.count-1]
	all, changes := 0, 0
	for k, is := range shared {
		if is {
			all++
		}
		if k > 0 && k < len(inner) && inner[k] != inner[k-1] {
			changes++
		}
	}
	switch own := slices.Index(inner, false); {
	case own < 0:
	case changes > 0 && inner[0]:
		return lag + own, min(all, changes) + 1
	default:
		return slices.Index(shared, true), min(all, changes) + 1
	}
	// One that lives long before the others: the first layer's input, if the loop recomputes, or reads,
	// recomputed inputs of later layers.
	type use struct{ first, index int }
	var uses []use
	for i := c.lo; i < c.hi; i++ {
		uses = append(uses, use{r.first[c.bufs[i]], i - c.lo})
	}
	slices.SortFunc(uses, func(x, y use) int { return cmp.Compare(x.first, y.first) })
	if n := len(uses); n > 2 && uses[1].first-uses[0].first > max(2*w.period, 3*(uses[n-1].first-uses[1].first)/(n-2)) {
		return uses[0].index, 1
	}
	return 0, 0
}

// iteration is where the iteration starts that first uses a chain's k-th buffer last; in iteration 0,
// the operation that does.
func (r *roller) iteration(w *window, c *chain, k int) int {
	if i := min(k, w.count-1); i > 0 {
		return w.start + i*w.period
	}
	for i := range w.operands {
		if x := &w.operands[i]; x.chain == c {
			return w.start + x.op
		}
	}
	return w.start
}

// join is a stack of c's buffers and of those in stacks with them. If there is none, it returns an
// index in c where they differ.
func (r *roller) join(c *chain) (all *chain, index int) {
	all = &chain{bufs: maps.Clone(c.bufs), lo: c.lo, hi: c.hi, stack: true}
	done := map[*chain]bool{}
	for i := c.lo; i < c.hi; i++ {
		s := r.stackOf[c.bufs[i]]
		if s == nil || done[s] {
			continue
		}
		done[s] = true
		at := r.stackAt[c.bufs[i]]
		signs := []int{1, -1} // of a common buffer
		for k := i + 1; k < c.hi; k++ {
			if b := c.bufs[k]; r.stackOf[b] == s { // of two
				signs = []int{1}
				if r.stackAt[b] < at {
					signs = []int{-1}
				}
				break
			}
		}
		n := slices.IndexFunc(signs, func(sign int) bool { return fits(all, s, sign, i-sign*at) })
		if n < 0 {
			return nil, i
		}
		for k, b := range s.bufs {
			all.put(signs[n]*k+i-signs[n]*at, b)
		}
	}
	return all, 0
}

// fits reports whether s's buffers, at index sign*k+zero for k in s, can join all. A buffer of both is
// then at its index in all: both are without gaps, so one on the way to it would not fit.
func fits(all, s *chain, sign, zero int) bool {
	for k, b := range s.bufs {
		if was, ok := all.bufs[sign*k+zero]; ok && was != b {
			return false
		}
	}
	return true
}
