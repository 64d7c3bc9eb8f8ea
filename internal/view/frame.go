package view

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"trireme/monitor"
)

// frame holds the state of the live view and formats its lines. It does no output.
type frame struct {
	began time.Time // of the view
	last  monitor.Record
	steps int // number of records
	eta   time.Duration
	evals *monitor.Evaluation
	loss  curve
	over  bool
}

type styles struct{ bold, dim, accent, warn, reset string }

var colors = styles{"\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[33m", "\x1b[0m"}

// stopHint is the last line of the view during a run.
const stopHint = "Ctrl-C saves and stops"

// lines formats the frame for a terminal of width columns.
func (f *frame) lines(now time.Time, width int, unicode bool, s styles) []string {
	width-- // keep the last column free: some terminals wrap after it
	var rows []row
	if f.steps == 0 {
		r := row{}
		r.item().add(s.dim, s.reset, "starting").add("", "", "  "+monitor.Clock(now.Sub(f.began)))
		rows = []row{r}
	} else {
		rows = []row{f.progressRow(now, width, unicode, s), f.lossRow(width, unicode, s), f.speedRow(s)}
		if f.last.Used() > 0 {
			rows = append(rows, f.memoryRow(s))
		}
		if f.last.Device != nil {
			rows = append(rows, f.deviceRow(s))
		}
		if f.evals != nil {
			rows = append(rows, f.evalRow(s))
		}
	}
	if !f.over {
		r := row{}
		for i, word := range strings.Fields(stopHint) {
			r.item().add(s.dim, s.reset, strings.Repeat(" ", min(i, 1))+word)
		}
		rows = append(rows, r)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.fit(width, unicode)
	}
	return out
}

func (f *frame) lossRow(width int, unicode bool, s styles) (out row) {
	r := f.last
	out.item().add(s.dim, s.reset, "loss   ").add(s.bold, s.reset, fmt.Sprintf("%.4f", r.Loss))
	if c := f.loss.draw(min(max(width-46, 0), 40), unicode); c != "" {
		out.item().add("", "", "  ").add(s.accent, s.reset, c)
	}
	out.field(s, "lr", fmt.Sprintf("%.2e", r.LR))
	out.field(s, "gnorm", monitor.Short(r.GradNorm))
	for _, k := range slices.Sorted(maps.Keys(r.Means)) {
		out.field(s, k, monitor.Short(r.Means[k]))
	}
	if r.Skipped || !r.Finite() {
		out.item().add("", "", "  ").add(s.warn, s.reset, "not finite: skipped")
	}
	return out
}

func (f *frame) speedRow(s styles) (out row) {
	r := f.last
	out.item().add(s.dim, s.reset, "speed  ").add(s.bold, s.reset, monitor.Thousands(r.TokensPerSecond()))
	out.item().add("", "", " tok/s")
	if r.HasUnlabeled() {
		if r.LabelTokens > r.Samples { // else rows have labels, not tokens
			out.field(s, "labels", monitor.Thousands(r.LabelTokensPerSecond())+"/s")
		}
		out.field(s, "samples", monitor.Short(r.SamplesPerSecond())+"/s")
	}
	out.field(s, "step", monitor.Short(1000*r.StepSeconds)+" ms")
	out.field(s, "mfu", r.FormatMFU())
	if r.PeakFLOPS > 0 {
		out.item().add("", "", " of "+monitor.FLOPS(r.PeakFLOPS))
	}
	if r.WorldSize > 1 {
		out.field(s, "comm", fmt.Sprintf("%.1f%%", 100*r.CommFraction))
	}
	out.field(s, "data", fmt.Sprintf("%.1f%%", 100*r.DataFraction))
	if r.WorldSize > 1 {
		out.field(s, "ranks", fmt.Sprint(r.WorldSize))
	}
	return out
}

func (f *frame) memoryRow(s styles) (out row) {
	r := f.last
	out.item().add(s.dim, s.reset, "memory ").add(s.bold, s.reset, monitor.Bytes(r.Used()))
	if r.MemoryLimit > 0 {
		out.item().add("", "", " of "+monitor.Bytes(r.MemoryLimit))
	}
	by, label := r.MemoryPeak, "  peak:" // most of a step's memory is free at its end
	if len(by) == 0 {
		by, label = r.Memory, ""
	}
	for i, k := range monitor.BySize(by) {
		out.item().add("", "", label+"  ").add(s.dim, s.reset, k+" ").add("", "", monitor.Bytes(by[k]))
		if i == 0 {
			label = ""
		}
	}
	return out
}

func (f *frame) evalRow(s styles) (out row) {
	e := f.evals
	out.item().add(s.dim, s.reset, "eval   ").add(s.bold, s.reset, fmt.Sprintf("%.4f", e.Loss))
	if e.Accuracy != nil {
		out.field(s, "accuracy", fmt.Sprintf("%.4f", *e.Accuracy))
		if e.MacroF1 != nil {
			out.field(s, "macro_f1", fmt.Sprintf("%.4f", *e.MacroF1))
		}
	} else {
		out.field(s, "perplexity", monitor.Short(e.Perplexity()))
	}
	for _, k := range slices.Sorted(maps.Keys(e.Means)) {
		out.field(s, k, monitor.Short(e.Means[k]))
	}
	out.field(s, "at step", fmt.Sprint(e.Step))
	return out
}

// progressRow formats steps, a progress bar, and the time remaining or since the last step.
func (f *frame) progressRow(now time.Time, width int, unicode bool, s styles) (out row) {
	r := f.last
	label, tail, style := "", "", ""
	silent := now.Sub(r.Time)
	switch {
	case f.over:
	case silent > max(5*time.Second, time.Duration(3*r.StepSeconds*float64(time.Second))):
		tail, style = "since last step "+monitor.Clock(silent), s.warn
	case f.eta >= 0 && r.MaxSteps > 0:
		label, tail = "eta ", monitor.Clock(f.eta)
	}
	out.item().add(s.dim, s.reset, "step   ").add(s.bold, s.reset, fmt.Sprint(r.Step))
	if r.MaxSteps > 0 {
		done := min(float64(r.Step)/float64(r.MaxSteps), 1)
		out.add("", "", fmt.Sprintf("/%d", r.MaxSteps))
		full, empty := "━", "─"
		if !unicode {
			full, empty = "=", "-"
		}
		n := min(max(width-out.columns()-len("    100%  ")-len(label+tail), 0), 40)
		k := int(done * float64(n))
		if n > 0 {
			out.item().add("", "", "  ").add(s.accent, s.reset, strings.Repeat(full, k)).add(s.dim, s.reset, strings.Repeat(empty, n-k))
		}
		out.item().add("", "", fmt.Sprintf("  %.0f%%", 100*done))
	}
	if tail != "" {
		out.item().add("", "", "  ").add(s.dim, s.reset, label).add(style, s.reset, tail)
	}
	return out
}

// deviceRow formats the line of the view.
func (f *frame) deviceRow(s styles) (out row) {
	d := f.last.Device
	number := func(v float64, unit string) string {
		if math.IsNaN(v) {
			return ""
		}
		return fmt.Sprintf("%.0f", v) + unit
	}
	out.item().add(s.dim, s.reset, "device ").add(s.bold, s.reset, number(100*d.Utilization, "%"))
	name := d.Name
	if d.Count > 1 {
		name = fmt.Sprintf("%d x %s", d.Count, d.Name)
	}
	out.item().add("", "", "  "+monitor.EscapeControl(name))
	if d.MemoryTotal > 0 {
		out.field(s, "memory", monitor.Bytes(d.MemoryUsed)+" of "+monitor.Bytes(d.MemoryTotal))
	}
	power := number(d.Power, " W")
	if limit := number(d.PowerLimit, " W"); power != "" && limit != "" {
		power += " of " + limit
	}
	out.field(s, "power", power)
	out.field(s, "temperature", number(d.Temperature, " C"))
	out.field(s, "clock", number(d.SMClock, " MHz"))
	if len(d.Throttled) > 0 {
		out.item().add("", "", "  ").add(s.warn, s.reset, "throttled: "+strings.Join(d.Throttled, ", "))
	}
	if d.Error != "" {
		out.item().add("", "", "  ").add(s.warn, s.reset, monitor.EscapeControl(d.Error))
	}
	return out
}
