package trace

import (
	"cmp"
	"math"
	"slices"
)

// Summary is where the time of a step went.
type Summary struct {
	Split       Split
	CommSeconds float64           // that the communication stream ran collectives
	CommOps     map[string]CommOp // by operation and axis: all_gather/shard
	// unknown is the part of Split.Comm in collectives whose last arrival is unknown.
	unknown float64
}

// Summarize splits the time from from to to by the spans of one rank. Each moment belongs to the innermost span of
// the stream Compute, and a wait for communication to the collective that runs then: until its last rank arrives it is
// Split.Wait, afterwards Split.Comm. Spans are those recorded since the step before, in any order: its last collectives
// may still run when the step begins, and count here. Collectives of evaluations do not count.
func Summarize(spans []Span, from, to int64) Summary {
	var evaluations []*Span
	compute, comm := make([]*Span, 0, len(spans)), make([]*Span, 0, len(spans))
	for i := range spans {
		s := &spans[i]
		if s.Kind == Evaluation {
			evaluations = append(evaluations, s)
		}
		switch {
		case s.Stream == Compute && s.Kind != Step:
			compute = append(compute, s)
		case s.Stream == Comm && s.Kind.Collective():
			comm = append(comm, s)
		}
	}
	slices.SortFunc(compute, func(a, b *Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
	slices.SortFunc(comm, func(a, b *Span) int { return cmp.Compare(a.Start, b.Start) })
	if len(evaluations) > 0 {
		comm = slices.DeleteFunc(comm, func(s *Span) bool {
			return slices.ContainsFunc(evaluations, func(e *Span) bool { return e.Start <= s.Start && s.Start < e.End })
		})
	}
	var u Summary
	var waits []waited
	exclusive(compute, from, to, func(s *Span, a, b int64) {
		switch {
		case s == nil:
			u.Split.Other += seconds(a, b)
		case s.Kind == Wait:
			waits = append(waits, waited{start: a, end: b, op: s.Op})
		default:
			*u.Split.of(s.Kind) += seconds(a, b)
		}
	})
	u.addComm(comm, waits)
	u.round()
	return u
}

// round rounds to nanoseconds: sums of floats have digits that nobody measured.
func (u *Summary) round() {
	s := &u.Split
	for _, v := range []*float64{&s.Data, &s.Forward, &s.Backward, &s.Recompute, &s.Optimizer, &s.Publish, &s.Offload, &s.Comm, &s.Wait, &s.Program, &s.Other, &u.CommSeconds} {
		*v = math.Round(*v*1e9) / 1e9
	}
	for k, op := range u.CommOps {
		op.Seconds, op.Exposed = math.Round(op.Seconds*1e9)/1e9, math.Round(op.Exposed*1e9)/1e9
		u.CommOps[k] = op
	}
}

// waited is a time in which computation waited for communication.
type waited struct {
	start, end int64
	covered    int64 // of it, in which a collective ran
	op         string
}

// exclusive calls f for the parts of from to to with the innermost span of each, in order, and with nil for those in no
// span. Spans are sorted by start, outer ones first.
func exclusive(spans []*Span, from, to int64, f func(s *Span, a, b int64)) {
	type level struct {
		*Span
		end int64
	}
	var open []level
	at := from
	until := func(end int64) { // the innermost open span has the time until end
		if end = min(end, to); end <= at {
			return
		}
		var s *Span
		if n := len(open); n > 0 {
			s = open[n-1].Span
		}
		f(s, at, end)
		at = end
	}
	closeBefore := func(t int64) {
		for n := len(open); n > 0 && open[n-1].end <= t; n-- {
			until(open[n-1].end)
			open = open[:n-1]
		}
	}
	for _, s := range spans {
		closeBefore(s.Start)
		until(s.Start)
		end := s.End
		if n := len(open); n > 0 { // it is inside, so a later end is an error
			end = min(end, open[n-1].end)
		}
		open = append(open, level{s, end})
	}
	closeBefore(to)
	until(to)
}

// addComm sums collectives, sorted by start, and divides the waits for them, sorted too.
func (u *Summary) addComm(comm []*Span, waits []waited) {
	type key struct {
		kind Kind
		axis string
	}
	ops := map[key]CommOp{}
	at, first := int64(0), 0 // the end of the covered time; the first wait that may overlap
	for _, s := range comm {
		k := key{s.Kind, s.Axis}
		op := ops[k]
		op.Count++
		op.Bytes += s.Bytes
		op.Seconds += s.Seconds()
		u.CommSeconds += s.Seconds()
		for first < len(waits) && waits[first].end <= s.Start {
			first++
		}
		for i := first; i < len(waits) && waits[i].start < s.End; i++ {
			a, b := max(waits[i].start, s.Start, at), min(waits[i].end, s.End)
			if b <= a {
				continue
			}
			at = b
			waits[i].covered += b - a
			op.Exposed += seconds(a, b)
			late := min(max(s.Ready, a), b) // until then a rank was missing
			u.Split.Wait += seconds(a, late)
			u.Split.Comm += seconds(late, b)
			if s.Ready == 0 {
				u.unknown += seconds(a, b)
			}
		}
		ops[k] = op
	}
	if len(ops) > 0 {
		u.CommOps = map[string]CommOp{}
		for k, op := range ops {
			u.CommOps[k.kind.String()+"/"+k.axis] = op
		}
	}
	// The rest of the waits: for a file, or between collectives.
	for _, w := range waits {
		rest := seconds(w.start+w.covered, w.end)
		if w.op == Offload.String() {
			u.Split.Offload += rest
		} else {
			u.Split.Comm += rest
		}
	}
}

// Slower moves time from Split.Comm to Split.Wait, of collectives whose last arrival is unknown: up to the time by which
// the slowest rank took longer than this one.
func (u *Summary) Slower(seconds float64) {
	d := min(max(0, seconds-u.Split.Wait), u.unknown)
	u.Split.Comm -= d
	u.Split.Wait += d
	u.unknown -= d
	u.round()
}

func seconds(a, b int64) float64 { return float64(b-a) / 1e9 }

// of returns the category of a kind of the stream Compute.
func (s *Split) of(k Kind) *float64 {
	switch k {
	case Data:
		return &s.Data
	case Forward:
		return &s.Forward
	case Backward:
		return &s.Backward
	case Recompute:
		return &s.Recompute
	case Optimizer:
		return &s.Optimizer
	case Publish:
		return &s.Publish
	case Offload:
		return &s.Offload
	case Program:
		return &s.Program
	}
	return &s.Other
}
