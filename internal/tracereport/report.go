package tracereport

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"trireme/internal/tracefile"
	"trireme/trace"
)

// Report is the summary of a trace. Times are in seconds of a step: the mean over steps, and over ranks unless they
// are of one rank.
type Report struct {
	Schema    string  `json:"schema"`
	FirstStep int64   `json:"first_step"`
	LastStep  int64   `json:"last_step"`
	Steps     int     `json:"steps"`
	World     int     `json:"ranks_traced"`
	Step      float64 `json:"step_seconds"` // of the ranks' mean
	// Uncertainty is the largest possible error of a rank's clock in seconds.
	Uncertainty float64 `json:"clock_uncertainty_seconds"`
	Dropped     int64   `json:"dropped_spans"`
	Parts       []Part  `json:"parts"`
	Units       []Part  `json:"units"` // the five longest
	Ranks       []Rank  `json:"ranks"`
	// Gain is the part that would shorten the step most, in words.
	Gain  string   `json:"gain"`
	Notes []string `json:"notes"`
}

// Part is a part of the step. Parts with an empty Detail sum to Step; those with one refine the Part before.
type Part struct {
	Name    string  `json:"name"`
	Detail  string  `json:"detail,omitempty"` // forward; all_gather/shard; rank 3
	Seconds float64 `json:"seconds"`
	Share   float64 `json:"share"` // of Step
	// Without is the step's time if the part took no time, as replayed.
	Without float64 `json:"step_seconds_without"`
}

// Rank is one rank's step.
type Rank struct {
	Rank    int                `json:"rank"`
	Host    string             `json:"host,omitempty"`
	Seconds float64            `json:"step_seconds"`
	Classes map[string]float64 `json:"classes"`
	// Hidden is communication beside computation.
	Hidden float64 `json:"hidden_communication"`
	// HeldUp is how long the other ranks waited for this one, summed over them.
	HeldUp float64 `json:"held_up_others"`
	// Spans are the totals of the whole trace, by stream and kind: compute/forward.
	Spans map[string]Total `json:"spans"`
}

// Total counts spans.
type Total struct {
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"`
}

// units is the number of units in a report, waited that of ranks waited for.
const (
	units  = 5
	waited = 5
)

// detail is a part below a class.
type detail struct {
	class Class
	name  string
}

// New summarizes a trace.
func New(t *tracefile.Trace) (*Report, error) {
	all := t.Collectives()
	last := arrivals(t, all)
	r := &Report{Schema: "trireme.trace.report/1", World: len(t.Ranks), Uncertainty: float64(t.Uncertainty()) / 1e9, Notes: slices.Clone(t.Notes)}
	r.FirstStep, r.LastStep, _ = t.Steps()
	segments := make([][]segment, len(t.Ranks))
	for i := range t.Ranks {
		all, steps := periods(&t.Ranks[i])
		r.Steps = max(r.Steps, steps)
		r.Dropped += t.Ranks[i].Dropped
		for _, p := range all {
			segments[i] = append(segments[i], timeline(&t.Ranks[i], last[i], p.from, p.to)...)
		}
	}
	if r.Steps == 0 {
		return nil, errors.New("the trace has no complete step")
	}
	if r.Dropped > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d spans were recorded but not kept: their time counts as idle", r.Dropped))
	}
	sums, byUnit := r.sum(t, segments)
	if r.World == 1 && t.Ranks[0].Foreign && sums[detail{class: Exposed}] > 0 {
		r.Notes = append(r.Notes, "a profile of one rank: its exposed communication includes waiting for others; try: give the files of all ranks")
	}
	r.replays(t, newReplay(t, all, segments), sums, byUnit)
	r.Gain = r.gain()
	return r, nil
}

// sum fills the ranks and returns the mean times of classes, their details and units.
func (r *Report) sum(t *tracefile.Trace, segments [][]segment) (sums map[detail]float64, byUnit map[string]float64) {
	sums, byUnit = map[detail]float64{}, map[string]float64{}
	heldUp := map[int]float64{}
	per := 1e9 * float64(r.Steps)
	for i, list := range segments {
		k := &t.Ranks[i]
		out := Rank{Rank: k.Rank, Host: k.Host, Classes: map[string]float64{}, Spans: map[string]Total{}}
		for c := range numClasses {
			out.Classes[c.String()] = 0
		}
		for _, s := range list {
			d := float64(s.end-s.start) / per
			out.Seconds += d
			out.Classes[s.class.String()] += d
			mean := d / float64(len(segments))
			sums[detail{class: s.class}] += mean
			switch s.class {
			case Compute:
				sums[detail{s.class, s.kind.String()}] += mean
				if s.unit != "" {
					byUnit[s.unit] += mean
				}
			case Exposed:
				sums[detail{s.class, s.op}] += mean
			case Waiting:
				sums[detail{s.class, rankName(s.on)}] += mean
				heldUp[s.on] += d
			}
		}
		var comm int64
		for _, s := range k.Spans {
			total := out.Spans[s.Stream.String()+"/"+s.Kind.String()]
			total.Count++
			total.Seconds += s.Seconds()
			out.Spans[s.Stream.String()+"/"+s.Kind.String()] = total
			if n := len(list); n > 0 && s.Stream == trace.Comm && s.Kind.Collective() {
				comm += max(0, min(s.End, list[n-1].end)-max(s.Start, list[0].start))
			}
		}
		out.Hidden = max(0, float64(comm)/per-out.Classes[Exposed.String()]-out.Classes[Waiting.String()])
		r.Ranks = append(r.Ranks, out)
		r.Step += out.Seconds / float64(len(segments))
	}
	for i := range r.Ranks {
		r.Ranks[i].HeldUp = heldUp[r.Ranks[i].Rank]
	}
	return sums, byUnit
}

func rankName(rank int) string {
	if rank < 0 {
		return "ranks that the trace lacks"
	}
	return fmt.Sprintf("rank %d", rank)
}

// replays fills the parts and units.
func (r *Report) replays(t *tracefile.Trace, p *replay, sums map[detail]float64, byUnit map[string]float64) {
	base := p.run(t, nothing)
	part := func(name, detail string, seconds float64, out without) Part {
		gone := float64(base-p.run(t, out)) / 1e9 / float64(r.Steps)
		return Part{name, detail, seconds, seconds / r.Step, max(0, r.Step-max(0, gone))}
	}
	for c := range numClasses {
		total := sums[detail{class: c}]
		if total == 0 && c != Compute && c != Exposed && c != Data && c != Checkpoint && c != Idle {
			continue
		}
		out := nothing
		out.segment = func(s segment) bool { return s.class == c }
		whole := part(c.String(), "", total, out)
		at := len(r.Parts)
		r.Parts = append(r.Parts, whole)
		names := detailsOf(sums, c)
		if c == Waiting {
			names = names[:min(len(names), waited)]
		}
		gone := 0.0
		for _, name := range names {
			out := nothing
			switch c {
			case Compute:
				out.segment = func(s segment) bool { return s.class == c && s.kind.String() == name }
			case Exposed:
				out.op = name
			case Waiting:
				out.rank = waitedFor(name)
			}
			d := part(c.String(), name, sums[detail{c, name}], out)
			gone = max(gone, r.Step-d.Without)
			r.Parts = append(r.Parts, d)
		}
		if c == Exposed || c == Waiting { // a whole class is not replayed: at least its best detail
			r.Parts[at].Without = r.Step - gone
		}
	}
	names := slices.SortedFunc(maps.Keys(byUnit), func(a, b string) int { return cmp.Or(cmp.Compare(byUnit[b], byUnit[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(len(names), units)] {
		out := nothing
		out.segment = func(s segment) bool { return s.class == Compute && s.unit == name }
		r.Units = append(r.Units, part("unit", name, byUnit[name], out))
	}
}

func waitedFor(name string) int {
	rank := -1
	_, _ = fmt.Sscanf(name, "rank %d", &rank) // else -1
	return rank
}

// detailsOf returns the details of a class, the longest first.
func detailsOf(sums map[detail]float64, c Class) (names []string) {
	for d := range sums {
		if d.class == c && d.name != "" {
			names = append(names, d.name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[detail{c, b}], sums[detail{c, a}]), cmp.Compare(a, b))
	})
	return names
}

// sortOperations orders operations by their last arrival.
func sortOperations(ops []operation) {
	slices.SortStableFunc(ops, func(a, b operation) int { return cmp.Compare(a.at, b.at) })
}

// gain describes the part besides computation that would shorten the step most.
func (r *Report) gain() string {
	best := Part{Without: math.Inf(1)}
	for i, p := range r.Parts {
		detailed := i+1 < len(r.Parts) && r.Parts[i+1].Name == p.Name && r.Parts[i+1].Detail != ""
		if p.Name != Compute.String() && p.Seconds > 0 && (p.Detail != "" || !detailed) && p.Without < best.Without {
			best = p
		}
	}
	if math.IsInf(best.Without, 1) || r.Step-best.Without < 0.02*r.Step {
		return "computation: no other part would shorten the step by 2%"
	}
	text := best.Name
	if rank, why := r.dominates(best.Name); best.Detail == "" && why != "" {
		text += fmt.Sprintf(" of rank %d, %s", rank, why)
	}
	if best.Detail != "" {
		text = best.Detail
		switch best.Name {
		case Waiting.String():
			text = "waiting on " + best.Detail
			if why := r.excess(waitedFor(best.Detail)); why != "" {
				text += ", " + why
			}
		case Exposed.String():
			text = "exposed " + best.Detail
		}
	}
	return fmt.Sprintf("%s: a step would take %s instead of %s without it", text, duration(best.Without), duration(r.Step))
}

// dominates returns the rank that spends at least twice the usual time in a class, and words for it.
func (r *Report) dominates(class string) (rank int, why string) {
	if len(r.Ranks) < 2 {
		return 0, ""
	}
	by := slices.Clone(r.Ranks)
	slices.SortStableFunc(by, func(a, b Rank) int { return cmp.Compare(b.Classes[class], a.Classes[class]) })
	most, usual := by[0].Classes[class], by[(len(by)+1)/2].Classes[class]
	if most < 2*usual {
		return 0, ""
	}
	return by[0].Rank, fmt.Sprintf("%s a step, others %s", duration(most), duration(usual))
}

// excess says what a rank spends more time on than the others.
func (r *Report) excess(rank int) string {
	at := slices.IndexFunc(r.Ranks, func(k Rank) bool { return k.Rank == rank })
	if at < 0 {
		return ""
	}
	most, text := 0.0, ""
	for _, c := range []Class{Compute, Data, Offload, Compile, Checkpoint, Evaluation, Idle} {
		var others []float64
		for i, k := range r.Ranks {
			if i != at {
				others = append(others, k.Classes[c.String()])
			}
		}
		slices.Sort(others)
		own, usual := r.Ranks[at].Classes[c.String()], others[len(others)/2]
		if d := own - usual; d > most {
			most, text = d, fmt.Sprintf("which spends %s a step on %s, others %s", duration(own), c, duration(usual))
		}
	}
	return text
}
