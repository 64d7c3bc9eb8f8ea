package tracefile

import (
	"cmp"
	"fmt"
	"slices"

	"trireme/trace"
)

// Trace has the spans of the ranks of a job, on the clock of its first rank.
type Trace struct {
	Ranks []Rank // by rank
	// Wall is the Unix time in nanoseconds at time 0 of the clock; 0 is unknown.
	Wall  int64
	Notes []string // what a reader should know, such as files that were left out
}

// Rank is one rank's part of a trace.
type Rank struct {
	Rank int
	Host string // "" is unknown
	PID  int
	// ClockOffset was added to the times of the rank's own clock, and ClockUncertainty is the largest possible
	// error of that, in nanoseconds. Ranks on one host share a clock.
	ClockOffset, ClockUncertainty int64
	// Dropped is the number of spans that were recorded but not kept.
	Dropped int64
	// Groups has, for each axis, the ranks that communicate with this one. A missing axis is all ranks.
	Groups map[string][]int
	// Spans are ordered by start, and those that start together from the longest.
	Spans []trace.Span
	// Foreign reports that another program recorded the spans: the compute stream has gaps where it waits for
	// communication, and several spans may run at once.
	Foreign bool
}

// Name names the rank with its host.
func (r *Rank) Name() string {
	if r.Host == "" {
		return fmt.Sprintf("rank %d", r.Rank)
	}
	return fmt.Sprintf("rank %d (%s)", r.Rank, r.Host)
}

// Shift adds an offset to all times.
func (r *Rank) Shift(offset int64) {
	for i := range r.Spans {
		s := &r.Spans[i]
		s.Start += offset
		s.End += offset
		if s.Ready != 0 {
			s.Ready += offset
		}
	}
	r.ClockOffset += offset
}

// sortSpans orders spans as Rank.Spans are.
func sortSpans(spans []trace.Span) {
	slices.SortStableFunc(spans, func(a, b trace.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
}

// Add adds a rank's part. Spans of a rank that the trace has already are merged.
func (t *Trace) Add(r Rank) {
	at, found := slices.BinarySearchFunc(t.Ranks, r.Rank, func(o Rank, rank int) int { return cmp.Compare(o.Rank, rank) })
	if !found {
		t.Ranks = slices.Insert(t.Ranks, at, r)
	} else {
		o := &t.Ranks[at]
		o.Spans = append(o.Spans, r.Spans...)
		o.Dropped += r.Dropped
		o.ClockUncertainty = max(o.ClockUncertainty, r.ClockUncertainty)
	}
	sortSpans(t.Ranks[at].Spans)
}

// Steps returns the first and the last step; ok is false if there is none.
func (t *Trace) Steps() (first, last int64, ok bool) {
	for _, r := range t.Ranks {
		for _, s := range r.Spans {
			if s.Kind != trace.Step {
				continue
			}
			if !ok {
				first, last, ok = s.Step, s.Step, true
			}
			first, last = min(first, s.Step), max(last, s.Step)
		}
	}
	return first, last, ok
}

// Uncertainty is the largest uncertainty of a rank's clock.
func (t *Trace) Uncertainty() (u int64) {
	for _, r := range t.Ranks {
		u = max(u, r.ClockUncertainty)
	}
	return u
}

// Name names a span for a person: forward layers.3.
func Name(s trace.Span) string {
	name := s.Kind.String()
	switch {
	case s.Kind == trace.Step:
		return fmt.Sprintf("step %d", s.Step)
	case s.Kind == trace.Wait && s.Op != "":
		name = "wait for " + s.Op
	case (s.Kind == trace.Other || s.Kind == trace.Program || s.Kind.Collective()) && s.Op != "":
		name = s.Op
	}
	if s.Unit != "" {
		name += " " + s.Unit
	}
	return name
}

// kinds has the kinds by name.
var kinds = func() map[string]trace.Kind {
	m := map[string]trace.Kind{}
	for k := trace.Kind(0); k.String() != "unknown"; k++ {
		m[k.String()] = k
	}
	return m
}()

// streams has the streams by name.
var streams = func() map[string]trace.Stream {
	m := map[string]trace.Stream{}
	for s := trace.Stream(0); s.String() != "unknown"; s++ {
		m[s.String()] = s
	}
	return m
}()

// tracksOf distributes the spans of a stream, ordered as Rank.Spans, over tracks, so that they nest in each. It returns
// the indexes of each track's spans.
func tracksOf(spans []trace.Span, of trace.Stream) (tracks [][]int) {
	var open [][]int64 // ends of the open spans of each track
	for i, s := range spans {
		if s.Stream != of {
			continue
		}
		at := -1
		for l := range open {
			for n := len(open[l]); n > 0 && open[l][n-1] <= s.Start; n = len(open[l]) {
				open[l] = open[l][:n-1]
			}
			if n := len(open[l]); n == 0 || s.End <= open[l][n-1] {
				at = l
				break
			}
		}
		if at < 0 {
			at = len(open)
			open, tracks = append(open, nil), append(tracks, nil)
		}
		open[at], tracks[at] = append(open[at], s.End), append(tracks[at], i)
	}
	return tracks
}

// trackLabel names track l of a stream.
func trackLabel(s trace.Stream, l int) string {
	if l == 0 {
		return s.String()
	}
	return fmt.Sprintf("%s %d", s, l+1)
}
