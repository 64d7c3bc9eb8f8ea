package parallel

import (
	"trireme/nn"
	"trireme/trace"
)

type phase uint8

const (
	forward   phase = iota
	recompute       // the second forward of a segment, before its backward
	backward
	phases
)

var spanKinds = [phases]trace.Kind{trace.Forward, trace.Recompute, trace.Backward}

// schedule is the expected order of the units in a micro-batch: forward, then backward with segments
// recomputed first. It decides what is prefetched and kept; a unit at another position is still gathered.
type schedule struct {
	units []int         // per position
	at    [phases][]int // per unit: its position in a phase; -1 for none
	uses  [][]int       // per flat: the positions that read it, ascending
}

// plan makes the schedule of a pass. Recomputation may change between passes.
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

func (s *schedule) next(f *flat, position int) (int, bool) {
	for _, use := range s.uses[f.index] {
		if use > position {
			return use, true
		}
	}
	return 0, false
}

// backwardAfter reports whether backward, of all units or of a segment, starts after a position: the
// same unit runs twice in a row.
func (s *schedule) backwardAfter(position int) bool {
	return position+1 < len(s.units) && s.units[position] == s.units[position+1]
}

// phaseOf returns the phase of a unit that is about to run forward.
func phaseOf(u *nn.Unit) phase {
	if u.Segment != nil && u.Segment.Recomputing {
		return recompute
	}
	return forward
}
