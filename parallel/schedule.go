package parallel

import "trireme/nn"

// phase is why a unit runs.
type phase uint8

const (
	forward   phase = iota
	recompute       // forward for the second time, as part of a segment
	backward
	phases
)

// schedule is the order in which a micro-batch is expected to run the units: forward, and, where it
// trains, backward, where a segment is recomputed first. What is prefetched and what is kept follow
// it; a unit that does not run at its position is gathered all the same.
type schedule struct {
	units []int         // of each position
	at    [phases][]int // of each unit: its position in a phase; -1 where it has none
	uses  [][]int       // of each flat: the positions that read it, ascending
}

// plan makes the schedule of a pass. What is recomputed may change between two.
func (e *Engine) plan(training bool) {
	s := &e.schedule
	n := len(e.units)
	s.units = s.units[:0]
	for p := range phases {
		s.at[p] = s.at[p][:0]
		for range n {
			s.at[p] = append(s.at[p], -1)
		}
	}
	for i := range s.uses {
		s.uses[i] = s.uses[i][:0]
	}
	run := func(p phase, i int) {
		position := len(s.units)
		s.at[p][i] = position
		s.units = append(s.units, i)
		for _, f := range e.needs[i] {
			s.uses[f.index] = append(s.uses[f.index], position)
		}
	}
	for i := range n {
		run(forward, i)
	}
	if !training {
		return
	}
	for i := n - 1; i >= 0; {
		first := i
		if s := e.units[i].Segment; s != nil {
			first = e.index[s.First]
			for k := first; k <= i; k++ {
				run(recompute, k)
			}
		}
		for ; i >= first; i-- {
			run(backward, i)
		}
	}
}

// next is the first position after one that reads f.
func (s *schedule) next(f *flat, position int) (int, bool) {
	for _, use := range s.uses[f.index] {
		if use > position {
			return use, true
		}
	}
	return 0, false
}

// turns reports whether backward starts after a position, for all units or those of a segment: the
// unit runs twice in a row.
func (s *schedule) turns(position int) bool {
	return position+1 < len(s.units) && s.units[position] == s.units[position+1]
}

// phaseOf is the phase of a unit that is about to run forward.
func phaseOf(u *nn.Unit) phase {
	if u.Segment != nil && u.Segment.Recomputing {
		return recompute
	}
	return forward
}
