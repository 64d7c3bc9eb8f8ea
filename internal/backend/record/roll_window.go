package record

import "math"

// window is a run of whole iterations.
type window struct {
	start, period, count int

	// Set by accept.
	operands []operand // in order
	chains   []*chain
	streams  map[uint64][]uint64
}

func (w *window) end() int   { return w.start + w.period*w.count }
func (w *window) saved() int { return w.period * (w.count - 1) }

// best is the window of a run with the most operations saved; nil for none. It tries the run's
// period and small multiples.
func (r *roller) best(c run) (best *window) {
	for times := 1; times <= 4 && c.hi-c.lo >= 2*times*c.period; times++ {
		w := r.bestOf(run{c.lo, c.hi, times * c.period})
		if w != nil && (best == nil || w.saved() > best.saved()) {
			best = w
		}
		if best != nil && best.saved() > c.hi-c.lo-2*c.period {
			break // all of it
		}
	}
	return best
}

// bestOf is best for one period. Of the windows with the most iterations it takes the one whose
// iterations pass the fewest bytes on to the next.
func (r *roller) bestOf(c run) *window {
	// A window that starts up to i ends up to limit[i].
	limit := make([]int, c.hi-c.lo+1)
	limit[c.hi-c.lo] = c.hi
	for i := c.hi - 1; i >= c.lo; i-- {
		end := limit[i+1-c.lo]
		switch a, b := i+c.period, i+2*c.period; {
		case a < c.hi && !r.movesTo(i, a):
			end = min(end, a)
		case b < c.hi && !r.movesAlike(i, a, b):
			end = min(end, b)
		}
		limit[i-c.lo] = end
	}
	passed := r.passed(c)
	best, bytes := (*window)(nil), math.MaxInt
	for i := c.lo; i < c.hi; i++ {
		count := (limit[i-c.lo] - i) / c.period
		if count < 2 || best != nil && count < best.count {
			continue
		}
		sum := 0
		for k := range count + 1 {
			sum += passed[i+k*c.period-c.lo]
		}
		if best == nil || count > best.count || sum < bytes {
			best, bytes = &window{start: i, period: c.period, count: count}, sum
		}
	}
	return best
}

// movesTo reports whether operation b can be the iteration after alike operation a: each operand is
// in the same buffer, or in another temporary of the same size at the same offset.
func (r *roller) movesTo(a, b int) bool {
	for k, x := range r.slots[a] {
		y := r.slots[b][k]
		by := y.Offset - x.Offset
		if x.Buffer < 0 || x.Buffer == y.Buffer && (by == 0 || !r.mixed[x.Buffer]) && (x.Axis == "" || y.base-x.base == by) {
			continue
		}
		if x.Buffer == y.Buffer || x.Offset != y.Offset || x.base != y.base || !r.swappable(x.Buffer, y.Buffer) {
			return false
		}
	}
	return true
}

// swappable reports whether two buffers can be elements of a stack.
func (r *roller) swappable(a, b int) bool {
	x, y := r.p.Buffers[a], r.p.Buffers[b]
	return x == y && x.Kind == Temporary && !r.mixed[a] && !r.mixed[b]
}

// movesAlike reports whether operands move from b to c as from a to b.
func (r *roller) movesAlike(a, b, c int) bool {
	for k, x := range r.slots[a] {
		y, z := r.slots[b][k], r.slots[c][k]
		if x.Buffer >= 0 && (x.Buffer == y.Buffer) != (y.Buffer == z.Buffer) || y.Offset-x.Offset != z.Offset-y.Offset {
			return false
		}
	}
	return true
}

// passed counts, for each index in a run, the bytes of temporaries that are used both in the period
// before it and in the one from it on.
func (r *roller) passed(c run) []int {
	out := make([]int, c.hi-c.lo+1)
	last := map[int]int{} // newest use of each buffer
	for i := c.lo; i < c.hi; i++ {
		for _, s := range r.slots[i] {
			if s.Buffer < 0 || r.p.Buffers[s.Buffer].Kind != Temporary {
				continue
			}
			if before, ok := last[s.Buffer]; ok && before < i {
				from, to := max(before, i-c.period)+1, min(i, before+c.period)
				if from <= to {
					out[from-c.lo] += r.p.Buffers[s.Buffer].Size
					out[to+1-c.lo] -= r.p.Buffers[s.Buffer].Size
				}
			}
			last[s.Buffer] = i
		}
	}
	for i := 1; i < len(out); i++ {
		out[i] += out[i-1]
	}
	return out
}
