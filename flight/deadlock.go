package flight

import (
	"fmt"
	"slices"
)

// cycle returns ranks that wait for each other, in order, or nil.
func cycle(ranks []Rank, waits map[int]*wait) []int {
	const visiting, visited = 1, 2
	state := make([]uint8, len(ranks))
	var path []int
	var visit func(r int) []int
	visit = func(r int) []int {
		state[r] = visiting
		path = append(path, r)
		for _, l := range waits[r].late {
			switch {
			case waits[l] == nil || waits[l].waited < deadlockAfter:
			case state[l] == visiting:
				return slices.Clone(path[slices.Index(path, l):])
			case state[l] == 0:
				if p := visit(l); p != nil {
					return p
				}
			}
		}
		path = path[:len(path)-1]
		state[r] = visited
		return nil
	}
	for r := range ranks {
		if w := waits[r]; w != nil && state[r] == 0 && w.waited >= deadlockAfter {
			if p := visit(r); p != nil {
				return p
			}
		}
	}
	return nil
}

// deadlock reports the rank of the cycle whose operation the fewest ranks wait in: it is likely the one that
// left the common order.
func deadlock(ranks []Rank, waits map[int]*wait, path []int) Report {
	same := func(w *wait) (n int) {
		for _, o := range waits {
			if o.group.Key == w.group.Key && o.op.Seq == w.op.Seq && o.op.Peer < 0 == (w.op.Peer < 0) {
				n++
			}
		}
		return n
	}
	slices.Sort(path)
	odd := path[0]
	for _, r := range path[1:] {
		if same(waits[r]) < same(waits[odd]) {
			odd = r
		}
	}
	w := waits[odd]
	var other *wait // that waits for odd
	for _, r := range path {
		if slices.Contains(waits[r].late, odd) {
			other = waits[r]
			break
		}
	}
	if other == nil {
		other = w
	}
	p := Report{Verdict: Deadlock, Rank: odd, Ranks: []int{odd}, Op: other.op.String(), Waiting: same(other), Waited: other.waited}
	p.Text = fmt.Sprintf("hang: %s %s, but has not reached %s, in which %s wait%s for it: they wait for each other",
		ranks[odd].Name(), ranks[odd].Activity(), ranks[other.rank].opText(other.op), waiters(waits, other), singular(same(other)))
	return p
}

// Missed says in which collective other ranks wait, or waited when they ended, for a rank that is lost: 7 others
// waited for it in all_gather #12 ... It is "" if there is none. States are by rank; nil is unknown.
func Missed(states []*State, rank int) string {
	ranks := make([]Rank, len(states))
	for r, s := range states {
		ranks[r].State = s
	}
	var missed *OpState
	var of *State
	n := 0
	for r, s := range states {
		if s == nil || r == rank {
			continue
		}
		if o := s.open(); o != nil && o.Kind != StoreGather && slices.Contains(newWait(ranks, r, o).late, rank) {
			if n++; missed == nil || o.Start.Before(missed.Start) {
				missed, of = o, s
			}
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 other waited for it in " + of.opText(missed)
	}
	return fmt.Sprintf("%d others waited for it in %s", n, of.opText(missed))
}

func count(n int) string {
	if n == 1 {
		return "1 other waits"
	}
	return fmt.Sprintf("%d others wait", n)
}

func past(activity string) string {
	for _, p := range []struct{ now, then string }{{"is ", "was "}, {"waits ", "waited "}, {"has ", "had "}} {
		if len(activity) > len(p.now) && activity[:len(p.now)] == p.now {
			return p.then + activity[len(p.now):]
		}
	}
	return activity
}
