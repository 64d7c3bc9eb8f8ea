package tracereport

import (
	"cmp"
	"slices"

	"trireme/internal/tracefile"
	"trireme/trace"
)

// Class is the use of a moment of a rank's time.
type Class uint8

// The classes, in the order of the report.
const (
	Compute Class = iota
	Exposed       // communication that computation waits for
	Waiting       // for another rank to reach a collective
	Data
	Offload
	Compile
	Checkpoint
	Evaluation
	Idle
	numClasses
)

var classNames = [numClasses]string{"compute", "exposed communication", "waiting on other ranks", "data", "offload", "compile", "checkpoint", "evaluation", "idle"}

func (c Class) String() string { return classNames[c] }

// segment is a period of a rank in one class.
type segment struct {
	start, end int64
	class      Class
	kind       trace.Kind // of computation
	unit       string
	op         string // of communication: all_gather/shard
	on         int    // the rank that is waited for; -1: unknown
	waits      bool   // the compute stream waits for communication
}

// arrival is the last arrival at a rank's collective.
type arrival struct {
	at   int64
	rank int // -1: unknown
}

// arrivals returns the last arrivals of each rank's spans, by index, and which collective each is.
func arrivals(t *tracefile.Trace, all []tracefile.Collective) []map[int]arrival {
	found := make([]map[int]arrival, len(t.Ranks))
	for r := range t.Ranks {
		found[r] = map[int]arrival{}
		for i, s := range t.Ranks[r].Spans {
			if s.Stream == trace.Comm && s.Ready > s.Start {
				found[r][i] = arrival{min(s.Ready, s.End), -1}
			}
		}
	}
	for _, c := range all {
		last := t.Ranks[c.Members[c.Last].Rank].Rank
		for i, m := range c.Members {
			if i == c.Last {
				delete(found[m.Rank], m.Span)
			} else {
				found[m.Rank][m.Span] = arrival{min(c.At, t.Ranks[m.Rank].Spans[m.Span].End), last}
			}
		}
	}
	return found
}

// opName names a collective with its axis.
func opName(s trace.Span) string {
	name := s.Op
	if name == "" {
		name = s.Kind.String()
	}
	if s.Axis != "" {
		name += "/" + s.Axis
	}
	return name
}

// period is a time of a rank in which steps follow each other.
type period struct{ from, to int64 }

// periods returns the times that a rank's steps take, with what follows them: one for each window of steps.
func periods(r *tracefile.Rank) (all []period, steps int) {
	seen := map[int64]bool{}
	var last int64
	for _, s := range r.Spans {
		switch {
		case s.Kind == trace.Step:
			if len(all) == 0 || s.Step != last && s.Step != last+1 {
				all = append(all, period{s.Start, s.End})
			}
			last, seen[s.Step] = s.Step, true
		case len(all) == 0 || s.Stream != trace.Compute || s.Step == 0 || r.Foreign:
			continue
		}
		p := &all[len(all)-1]
		p.to = max(p.to, s.End)
	}
	return all, len(seen)
}

// edge is the start or the end of a span.
type edge struct {
	at    int64
	begin bool
	span  int
}

// timeline divides the window of a rank into segments.
func timeline(r *tracefile.Rank, last map[int]arrival, from, to int64) (segments []segment) {
	var edges []edge
	for i, s := range r.Spans {
		if s.Stream != trace.Compute && s.Stream != trace.Comm || s.End <= from || s.Start >= to || s.End <= s.Start {
			continue
		}
		edges = append(edges, edge{s.Start, true, i}, edge{s.End, false, i})
		if a, ok := last[i]; ok && a.at > s.Start && a.at < s.End {
			edges = append(edges, edge{a.at, true, -1}) // a boundary only
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	var compute, comm []int // running spans
	at := from
	emit := func(until int64) {
		until = min(until, to)
		if until <= at {
			return
		}
		s := classify(r, last, compute, comm, at)
		s.start, s.end = at, until
		at = until
		if n := len(segments); n > 0 {
			if p := segments[n-1]; p.class == s.class && p.kind == s.kind && p.unit == s.unit && p.op == s.op && p.on == s.on && p.waits == s.waits {
				segments[n-1].end = until
				return
			}
		}
		segments = append(segments, s)
	}
	for _, e := range edges {
		emit(e.at)
		if e.span < 0 {
			continue
		}
		running := &compute
		if r.Spans[e.span].Stream == trace.Comm {
			running = &comm
		}
		if e.begin {
			*running = append(*running, e.span)
		} else if i := slices.Index(*running, e.span); i >= 0 {
			*running = slices.Delete(*running, i, i+1)
		}
	}
	emit(to)
	return segments
}

// classify returns the segment of a moment, from the spans that run: compute and comm.
func classify(r *tracefile.Rank, last map[int]arrival, compute, comm []int, at int64) segment {
	inner := -1
	better := func(i int) bool {
		a, b := r.Spans[i], r.Spans[inner]
		if x, y := a.Kind == trace.Program, b.Kind == trace.Program; x != y {
			return x // a kernel beside an operation of the host
		}
		if x, y := a.Kind == trace.Wait, b.Kind == trace.Wait; r.Foreign && x != y {
			return y // another thread computes
		}
		return a.Start > b.Start || a.Start == b.Start && a.End <= b.End
	}
	for _, i := range compute {
		switch r.Spans[i].Kind {
		case trace.Checkpoint:
			return segment{class: Checkpoint}
		case trace.Evaluation:
			return segment{class: Evaluation}
		case trace.Step:
		default:
			if inner < 0 || better(i) {
				inner = i
			}
		}
	}
	kind := trace.Step
	if inner >= 0 {
		kind = r.Spans[inner].Kind
	}
	switch kind {
	case trace.Data, trace.Tokenize:
		return segment{class: Data}
	case trace.Offload:
		return segment{class: Offload}
	case trace.Compile:
		return segment{class: Compile}
	case trace.Step:
		if !r.Foreign {
			return segment{class: Idle}
		}
	case trace.Wait:
	default:
		s := segment{class: Compute, kind: kind, unit: r.Spans[inner].Unit}
		if s.unit == "" && (r.Foreign || kind == trace.Program) {
			s.unit = r.Spans[inner].Op
		}
		return s
	}
	if len(comm) > 0 { // the oldest: the stream runs one at a time
		i := comm[0]
		if a, ok := last[i]; ok && at < a.at {
			return segment{class: Waiting, on: a.rank, waits: true}
		}
		return segment{class: Exposed, op: opName(r.Spans[i]), waits: true}
	}
	if inner >= 0 && r.Spans[inner].Op != "" && !r.Foreign { // between its start and the communication stream's
		return segment{class: Exposed, op: opName(r.Spans[inner]), waits: true}
	}
	return segment{class: Idle, waits: kind == trace.Wait}
}
