package parallel

import "trireme/nn"

// phase is why a unit runs.
type phase uint8

const (
	forward phase = iota
	again         // forward for the second time, as part of a segment
	back
	phases
)

// trace is the order in which a micro-batch is expected to run the units: forward, and, where it
// trains, back, where a segment runs forward again before it goes back. What is gathered ahead
// and what is kept follow it; a unit that does not run in its turn is gathered all the same.
type trace struct {
	units []int         // of each turn
	turns [phases][]int // of each unit: its turn in a phase; -1 where it has none
	uses  [][]int       // of each flat: the turns that read it, ascending
}

// plan makes the trace of a pass. What is computed again may change between two.
func (e *Engine) plan(training bool) {
	t := &e.trace
	n := len(e.units)
	t.units = t.units[:0]
	for p := range phases {
		t.turns[p] = t.turns[p][:0]
		for range n {
			t.turns[p] = append(t.turns[p], -1)
		}
	}
	for i := range t.uses {
		t.uses[i] = t.uses[i][:0]
	}
	run := func(p phase, i int) {
		turn := len(t.units)
		t.turns[p][i] = turn
		t.units = append(t.units, i)
		for _, f := range e.needs[i] {
			t.uses[f.index] = append(t.uses[f.index], turn)
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
				run(again, k)
			}
		}
		for ; i >= first; i-- {
			run(back, i)
		}
	}
}

// next is the first turn after turn that reads f.
func (t *trace) next(f *flat, turn int) (int, bool) {
	for _, use := range t.uses[f.index] {
		if use > turn {
			return use, true
		}
	}
	return 0, false
}

// meets says whether the way back begins after turn, for all units or those of a segment: the
// unit runs twice in a row.
func (t *trace) meets(turn int) bool {
	return turn+1 < len(t.units) && t.units[turn] == t.units[turn+1]
}

// way is the phase of a unit that is about to run forward.
func way(u *nn.Unit) phase {
	if u.Segment != nil && u.Segment.Again {
		return again
	}
	return forward
}
