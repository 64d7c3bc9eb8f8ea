package tracefile

import (
	"cmp"
	"slices"

	"trireme/trace"
)

// Member is a rank's part of a collective: span Span of Ranks[Rank].
type Member struct{ Rank, Span int }

// Collective is one collective of several ranks.
type Collective struct {
	Members []Member
	Last    int   // index in Members of the rank that reached it last
	At      int64 // when
}

// held is the shortest time that counts as waiting for the last rank.
const held = 1000

// Holds reports whether member i waited for the last one, and until when.
func (c *Collective) Holds(t *Trace, i int) (until int64, ok bool) {
	m := c.Members[i]
	s := t.Ranks[m.Rank].Spans[m.Span]
	until = min(c.At, s.End)
	return until, i != c.Last && until-s.Start >= held
}

// groupKey is one operation of a group of ranks.
type groupKey struct {
	axis string
	of   int // the lowest rank
	kind trace.Kind
	op   string
	seq  uint64
	nth  int // use of seq by the rank: numbers start again with the job
}

// Collectives matches the collectives of the ranks, in the order of their last arrivals. Those of one rank alone are
// left out.
func (t *Trace) Collectives() []Collective {
	open := map[groupKey]int{}
	var all []Collective
	for r := range t.Ranks {
		used := map[groupKey]int{}
		for i, s := range t.Ranks[r].Spans {
			if s.Stream != trace.Comm || !s.Kind.Collective() || s.Kind == trace.Send || s.Kind == trace.Recv {
				continue
			}
			k := groupKey{axis: s.Axis, kind: s.Kind, op: s.Op, seq: s.Seq}
			if g := t.Ranks[r].Groups[s.Axis]; len(g) > 0 {
				k.of = slices.Min(g)
			}
			use := k
			k.nth = used[use]
			used[use]++
			at, known := open[k]
			if !known {
				at = len(all)
				open[k] = at
				all = append(all, Collective{})
			}
			c := &all[at]
			if len(c.Members) == 0 || s.Start > c.At {
				c.Last, c.At = len(c.Members), s.Start
			}
			c.Members = append(c.Members, Member{r, i})
		}
	}
	all = slices.DeleteFunc(all, func(c Collective) bool { return len(c.Members) < 2 })
	slices.SortStableFunc(all, func(a, b Collective) int { return cmp.Compare(a.At, b.At) })
	return all
}
