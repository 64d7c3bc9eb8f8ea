package tracereport

import (
	"trireme/internal/tracefile"
	"trireme/trace"
)

// replay is a trace as work with dependencies.
type replay struct {
	ranks []replayRank
	ops   []operation // in the order of their last arrivals
}

type replayRank struct {
	segments []segment
	// awaits has, for each segment that ends a wait, the number of operations of this rank that ended by then.
	awaits []int
	// needs has, for each segment that starts to compute a unit, the operation that all-gathered the unit, counted
	// from 1; 0 is none. Where its end came in time, no wait shows it.
	needs []int
	comm  []int64 // ends of this rank's operations
}

// operation is a collective, or an operation of one rank.
type operation struct {
	name    string
	at      int64 // last arrival
	members []member
}

// member is a rank's part: its n-th operation.
type member struct {
	rank, n    int
	start, end int64
	// issued reports that the operation started some time after the one before it, so the computation had issued
	// it just then.
	issued bool
	// after is the segment in which the operation's unit was computed before, counted from 1: it issued the
	// operation or resharded what that gathers. 0 is none.
	after int
}

// queued is the longest pause in nanoseconds after which an operation had waited for the one before it.
const queued = 20_000

// slack is the time after the end of an operation in which the computation that waits for it continues.
const slack = 1_000_000

func newReplay(t *tracefile.Trace, all []tracefile.Collective, segments [][]segment) *replay {
	p := &replay{ranks: make([]replayRank, len(t.Ranks))}
	type key struct{ rank, span int }
	parts := map[key]member{}
	for r := range t.Ranks {
		k := &p.ranks[r]
		k.segments = segments[r]
		end := int64(0)
		for i, s := range t.Ranks[r].Spans {
			if s.Stream != trace.Comm || !s.Kind.Collective() || len(segments[r]) == 0 || s.End <= segments[r][0].start || s.Start >= segments[r][len(segments[r])-1].end {
				continue
			}
			parts[key{r, i}] = member{rank: r, n: len(k.comm), start: s.Start, end: s.End, issued: s.Start-end > queued}
			k.comm = append(k.comm, s.End)
			end = s.End
		}
		after := k.units(&t.Ranks[r])
		for i, n := range after {
			part := parts[key{r, i}]
			part.after = n
			parts[key{r, i}] = part
		}
		k.awaits = make([]int, len(k.segments))
		n := 0
		for i, s := range k.segments {
			for n < len(k.comm) && k.comm[n] <= s.end {
				n++
			}
			if s.waits && (i+1 == len(k.segments) || !k.segments[i+1].waits) && n > 0 && s.end-k.comm[n-1] <= slack {
				k.awaits[i] = n
			}
		}
	}
	for _, c := range all {
		o := operation{at: c.At}
		for _, m := range c.Members {
			if part, ok := parts[key{m.Rank, m.Span}]; ok {
				o.members = append(o.members, part)
				o.name = opName(t.Ranks[m.Rank].Spans[m.Span])
				delete(parts, key{m.Rank, m.Span})
			}
		}
		if len(o.members) > 0 {
			p.ops = append(p.ops, o)
		}
	}
	for r := range t.Ranks {
		for i, s := range t.Ranks[r].Spans {
			if part, ok := parts[key{r, i}]; ok {
				p.ops = append(p.ops, operation{name: opName(s), at: s.Start, members: []member{part}})
			}
		}
	}
	sortOperations(p.ops)
	return p
}

// units finds the operations that segments need, and for each operation, by the index of its span, the segment that
// it comes after.
func (k *replayRank) units(r *tracefile.Rank) (after map[int]int) {
	const tolerance = 1000 // nanoseconds
	after = map[int]int{}
	k.needs = make([]int, len(k.segments))
	if len(k.segments) == 0 || r.Foreign {
		return after
	}
	from, to := k.segments[0].start, k.segments[len(k.segments)-1].end
	computed := map[string]int{} // the last segment of a unit, from 1
	done := 0
	type gathered struct {
		n   int
		end int64
	}
	gathers := map[string][]gathered{}
	n := 0
	for i, s := range r.Spans {
		if s.Stream != trace.Comm || !s.Kind.Collective() || s.End <= from || s.Start >= to {
			continue
		}
		n++
		for ; done < len(k.segments) && k.segments[done].end <= s.Start+tolerance; done++ {
			if c := k.segments[done]; c.class == Compute && c.unit != "" {
				computed[c.unit] = done + 1
			}
		}
		if at := computed[s.Unit]; at > 0 {
			after[i] = at
		}
		if s.Kind == trace.AllGather && s.Unit != "" {
			gathers[s.Unit] = append(gathers[s.Unit], gathered{n, s.End})
		}
	}
	for i, c := range k.segments {
		if c.class != Compute || i > 0 && k.segments[i-1].unit == c.unit && k.segments[i-1].class == Compute {
			continue
		}
		list := gathers[c.unit]
		for len(list) > 1 && list[1].end <= c.start+tolerance {
			list = list[1:]
		}
		gathers[c.unit] = list
		if len(list) > 0 && list[0].end <= c.start+tolerance {
			k.needs[i] = list[0].n
		}
	}
	return after
}

// without says what a replay leaves out.
type without struct {
	segment func(segment) bool // work that takes no time; nil: none
	op      string             // transfers that take no time; "": none
	rank    int                // that nobody waits for; -1: none
}

var nothing = without{rank: -1}

// walker replays one rank.
type walker struct {
	*replayRank
	out  without
	i    int   // segment
	done int64 // of it
	now  int64
	ends []int64 // new ends of operations
	past []int64 // new ends of segments
}

// to replays until the moment that was at.
func (w *walker) to(at int64) {
	for ; w.i < len(w.segments); w.i++ {
		s := w.segments[w.i]
		if s.start+w.done >= at {
			return
		}
		if n := w.needs[w.i]; w.done == 0 && n > 0 && n <= len(w.ends) {
			w.now = max(w.now, w.ends[n-1])
		}
		until := min(at, s.end)
		if !s.waits && (w.out.segment == nil || !w.out.segment(s)) {
			w.now += until - s.start - w.done
		}
		if until < s.end {
			w.done = until - s.start
			return
		}
		w.done = 0
		if n := w.awaits[w.i]; n > 0 && n <= len(w.ends) {
			w.now = max(w.now, w.ends[n-1])
		}
		w.past = append(w.past, w.now)
	}
}

// ended returns the new time at which segment i ended.
func (w *walker) ended(i int) int64 {
	if len(w.past) <= i {
		w.to(w.segments[i].end)
	}
	if len(w.past) <= i { // an empty segment
		return w.now
	}
	return w.past[i]
}

// run returns the time that the replay takes.
func (p *replay) run(t *tracefile.Trace, out without) (total int64) {
	walkers := make([]walker, len(p.ranks))
	first := int64(0)
	for r := range p.ranks {
		walkers[r] = walker{replayRank: &p.ranks[r], out: out}
		if s := p.ranks[r].segments; len(s) > 0 && (first == 0 || s[0].start < first) {
			first = s[0].start
		}
	}
	for r := range walkers {
		if s := walkers[r].segments; len(s) > 0 {
			walkers[r].now = s[0].start - first
		}
	}
	for _, o := range p.ops {
		starts := make([]int64, len(o.members))
		last := int64(0)
		for i, m := range o.members {
			w := &walkers[m.rank]
			if m.after > 0 {
				starts[i] = w.ended(m.after - 1)
			}
			if m.issued {
				w.to(m.start)
				starts[i] = max(starts[i], w.now)
			}
			if m.n > 0 && m.n <= len(w.ends) {
				starts[i] = max(starts[i], w.ends[m.n-1])
			}
			if t.Ranks[m.rank].Rank != out.rank || len(o.members) == 1 {
				last = max(last, starts[i])
			}
		}
		for i, m := range o.members {
			w := &walkers[m.rank]
			length := max(0, m.end-max(o.at, m.start))
			if o.name == out.op {
				length = 0
			}
			for len(w.ends) < m.n { // an operation that another start of the job repeats
				w.ends = append(w.ends, 0)
			}
			w.ends = append(w.ends[:m.n], max(last, starts[i])+length)
		}
	}
	for r := range walkers {
		w := &walkers[r]
		if n := len(w.segments); n > 0 && (t.Ranks[r].Rank != out.rank || len(walkers) == 1) {
			w.to(w.segments[n-1].end)
			total = max(total, w.now)
		}
	}
	return total
}
