package record

import "maps"

// lag is the number of iterations for which a chain's buffers are passed on in w.
func (c *chain) lag(w *window) int { return len(c.bufs) - w.count }

// private reports whether w alone uses a chain's buffers, but for the first ones before it and the last
// ones after it.
func (r *roller) private(w *window, c *chain) bool {
	for i := c.lo; i < c.hi; i++ {
		b, k := c.bufs[i], i-c.lo
		before, after := r.first[b] < w.start, r.last[b] >= w.end()
		if before && (after || k >= c.lag(w)) || after && k < w.count-1 {
			return false
		}
	}
	return true
}

// planStacks decides which of w's chains are stacks, and joins them to those of other windows.
func (r *roller) planStacks(w *window) int {
	type was struct {
		stack *chain
		at    int
	}
	undo := map[int]was{}
	for _, c := range w.chains {
		c.stack = c.stack || !r.private(w, c)
		if !c.stack {
			continue
		}
		joined, index := r.join(c)
		if joined == nil {
			for b, old := range undo {
				r.stackOf[b], r.stackAt[b] = old.stack, old.at
			}
			for k := range w.operands {
				if x := &w.operands[k]; x.chain == c {
					i := min(max(index-c.lo-x.shift, 0), w.count-1)
					return w.start + i*w.period + x.op
				}
			}
		}
		for i, b := range joined.bufs {
			if _, ok := undo[b]; !ok {
				undo[b] = was{r.stackOf[b], r.stackAt[b]}
			}
			r.stackOf[b], r.stackAt[b] = joined, i
		}
	}
	return -1
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
		fits := false
		for _, sign := range signs {
			if fits = r.fits(all, c, s, sign, i-sign*at); fits {
				for k, b := range s.bufs {
					all.put(sign*k+i-sign*at, b)
				}
				break
			}
		}
		if !fits {
			return nil, i
		}
	}
	if len(all.bufs) < all.hi-all.lo {
		return nil, c.lo
	}
	return all, 0
}

// fits reports whether s's buffers, at index sign*k+zero for k in s, can join all, which has those of
// c.
func (r *roller) fits(all, c, s *chain, sign, zero int) bool {
	for k, b := range s.bufs {
		i := sign*k + zero
		if was, ok := all.bufs[i]; ok && was != b || r.chainOf[b] == c && r.indexOf[b] != i {
			return false
		}
	}
	return true
}
