package view

import (
	"cmp"
	"slices"
	"strings"

	"trireme/monitor"
	"trireme/trace"
)

// part is a category of the time of a step.
type part struct {
	name    string
	seconds float64
}

// parts returns the categories with time in the order of a step.
func parts(t *trace.Split) (out []part) {
	for _, p := range []part{
		{"data", t.Data}, {"forward", t.Forward}, {"recompute", t.Recompute}, {"backward", t.Backward}, {"program", t.Program}, {"offload", t.Offload},
		{"comm", t.Comm}, {"wait", t.Wait}, {"optimizer", t.Optimizer}, {"publish", t.Publish}, {"other", t.Other},
	} {
		if p.seconds > 0 {
			out = append(out, p)
		}
	}
	return out
}

func bySeconds(ps []part) []part {
	ps = slices.Clone(ps)
	slices.SortStableFunc(ps, func(a, b part) int { return cmp.Compare(b.seconds, a.seconds) })
	return ps
}

// splitRow lists the categories, the largest first.
func (f *frame) splitRow() (out row) {
	s, t := f.o.s, f.last.Split
	out.item().add(s.dim, s.reset, "time   ")
	sum, sep := t.Sum(), ""
	for _, p := range bySeconds(parts(t)) {
		if p.seconds >= 0.001*sum {
			out.item().add("", "", sep).add(s.segments[p.name], s.reset, p.name).add("", "", " "+formatPercent(p.seconds/sum))
			sep = "  "
		}
	}
	return out
}

// splitBar draws the categories as adjacent segments with their names, in the order of a step.
func (f *frame) splitBar() (out row) {
	s, t := f.o.s, f.last.Split
	out.item().add("", "", "       ")
	width, sum := f.width-7, t.Sum()
	var before float64
	at := 0
	for _, p := range parts(t) {
		before += p.seconds
		end := int(before/sum*float64(width) + 0.5)
		if n := end - at; n > 0 {
			out.add(s.segments[p.name], s.reset, segment(p.name, n, f.o.unicode))
		}
		at = max(at, end)
	}
	return out
}

// segment fills n columns with a name and a line; the last column separates segments.
func segment(name string, n int, unicode bool) string {
	line, end := "━", "╸"
	if !unicode {
		line, end = "=", " "
	}
	switch {
	case n == 1:
		return end
	case n < 4 || n-1 < len(name)/2: // an unreadable name
		return strings.Repeat(line, n-1) + end
	}
	name = name[:min(len(name), n-1)]
	return name + strings.Repeat(line, n-1-len(name)) + end
}

// timeLines is the pane of the time of a step: categories with bars, and collectives.
func (f *frame) timeLines() (out []row) {
	s, r := f.o.s, f.last
	if r.Split == nil {
		out = append(out, nil)
		out[0].words(s.dim, s.reset, "The records of this run have no time split.")
		return out
	}
	sum := r.Split.Sum()
	for _, p := range bySeconds(parts(r.Split)) {
		var line row
		line.item().add("", "", pad(p.name, 10)).add(s.bold, s.reset, padLeft(formatSeconds(p.seconds), 9)).add("", "", padLeft(formatPercent(p.seconds/sum), 7)+" ")
		line.item().bar(s, f.o.unicode, s.segments[p.name], p.seconds/sum, min(max(f.width-28, 0), 60))
		out = append(out, line)
	}
	if len(r.CommOps) == 0 {
		return out
	}
	var line row
	line.item().add(s.dim, s.reset, "collectives")
	line.field(s, "busy", formatSeconds(r.CommSeconds))
	line.field(s, "hidden", formatSeconds(max(0, r.CommSeconds-r.Split.Comm-r.Split.Wait)))
	out = append(out, nil, line)
	var names []string
	for name := range r.CommOps {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.CommOps[b].Exposed, r.CommOps[a].Exposed), cmp.Compare(a, b))
	})
	for _, name := range names {
		op := r.CommOps[name]
		var line row
		line.item().add("", "", pad(name, 22))
		line.field(s, "exposed", formatSeconds(op.Exposed))
		line.field(s, "of", formatSeconds(op.Seconds))
		line.field(s, "bytes", monitor.Bytes(op.Bytes))
		line.field(s, "calls", monitor.Thousands(float64(op.Count)))
		out = append(out, line)
	}
	return out
}

func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(columns-textWidth(text), 0))
}

func padLeft(text string, columns int) string {
	return strings.Repeat(" ", max(columns-textWidth(text), 0)) + text
}
