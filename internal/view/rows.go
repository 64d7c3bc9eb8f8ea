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

func (f *frame) headRow() (out row) {
	s := f.o.s
	out.item().add(s.bold, s.reset, f.Run.Dir)
	switch {
	case !f.Over:
		out.item().add("", "", "  ").add(s.good, s.reset, "running")
	case f.Bad:
		out.item().add("", "", "  ").add(s.bad, s.reset, f.Ended)
	default:
		out.item().add("", "", "  ").add(s.good, s.reset, f.Ended)
	}
	if f.Run.About != "" {
		out.item().add(s.dim, s.reset, "  "+f.Run.About)
	}
	return out
}

// progressRow formats steps, a progress bar, and the time remaining or since the last step.
func (f *frame) progressRow() (out row) {
	r, s := f.last, f.o.s
	label, tail, style := "", "", ""
	silent := f.now.Sub(r.Time)
	switch {
	case f.Over:
	case silent > max(5*time.Second, time.Duration(3*r.StepSeconds*float64(time.Second))):
		tail, style = "since last step "+monitor.Clock(silent), s.warn
	case f.left >= 0 && r.MaxSteps > 0:
		label, tail = "eta ", monitor.Clock(f.left)
	}
	out.item().add(s.dim, s.reset, "step   ").add(s.bold, s.reset, fmt.Sprint(r.Step))
	if r.MaxSteps > 0 {
		done := min(float64(r.Step)/float64(r.MaxSteps), 1)
		out.add("", "", fmt.Sprintf("/%d", r.MaxSteps))
		if n := min(max(f.width-out.columns()-len("    100%  ")-len(label+tail), 0), 40); n > 0 {
			out.item().add("", "", "  ").bar(s, f.o.unicode, s.accent, done, n)
		}
		out.item().add("", "", fmt.Sprintf("  %.0f%%", 100*done))
	}
	if tail != "" {
		out.item().add("", "", "  ").add(s.dim, s.reset, label).add(style, s.reset, tail)
	}
	return out
}

func (f *frame) lossRow() (out row) {
	r, s := f.last, f.o.s
	out.item().add(s.dim, s.reset, "loss   ").add(s.bold, s.reset, formatLoss(r.Loss))
	if c := f.curves["loss"].draw(min(max(f.width-46, 0), 40), f.o.unicode); c != "" {
		out.item().add("", "", "  ").add(s.accent, s.reset, c)
	}
	out.field(s, "lr", formatScientific(r.LR))
	out.field(s, "gnorm", monitor.Short(r.GradNorm))
	f.addMeans(&out)
	return out
}

// addMeans adds the model's own metrics, and a skipped step.
func (f *frame) addMeans(out *row) {
	r, s := f.last, f.o.s
	for _, k := range slices.Sorted(maps.Keys(r.Means)) {
		out.field(s, k, monitor.Short(r.Means[k]))
	}
	if r.Skipped || !r.Finite() {
		out.item().add("", "", "  ").add(s.warn, s.reset, "not finite: skipped")
	}
}

func (f *frame) speedRow() (out row) {
	r, s := f.last, f.o.s
	out.item().add(s.dim, s.reset, "speed  ").add(s.bold, s.reset, monitor.Thousands(r.TokensPerSecond()))
	out.item().add("", "", " tok/s")
	if r.HasUnlabeled() {
		if r.LabelTokens > r.Samples { // else rows have labels, not tokens
			out.field(s, "labels", monitor.Thousands(r.LabelTokensPerSecond())+"/s")
		}
		out.field(s, "samples", monitor.Short(r.SamplesPerSecond())+"/s")
	}
	out.field(s, "step", monitor.Short(1000*r.StepSeconds)+" ms")
	if r.StepSecondsMean > 0 {
		out.field(s, "mean", fmt.Sprintf("%s (std %s)", monitor.Short(1000*r.StepSecondsMean), monitor.Short(1000*r.StepSecondsStd)))
	}
	out.field(s, "mfu", r.FormatMFU())
	if r.PeakFLOPS > 0 {
		out.item().add("", "", " of "+monitor.FLOPS(r.PeakFLOPS))
	}
	if r.Split != nil {
		return out // it has the rest
	}
	if r.WorldSize > 1 {
		out.field(s, "comm", formatPercent(r.CommFraction))
	}
	out.field(s, "data", formatPercent(r.DataFraction))
	if r.WorldSize > 1 && r.Skew == 0 {
		out.field(s, "ranks", fmt.Sprint(r.WorldSize))
	}
	return out
}

// memoryRow compares resident memory with its limit, and tensor memory with the plan.
func (f *frame) memoryRow() (out row) {
	r, s := f.last, f.o.s
	out.item().add(s.dim, s.reset, "memory ").add(s.bold, s.reset, monitor.Bytes(r.Used()))
	if r.MemoryLimit > 0 {
		out.item().add("", "", " of "+monitor.Bytes(r.MemoryLimit))
	}
	by, label := r.MemoryPeak, "  peak:" // most of a step's memory is free at its end
	if len(by) == 0 {
		by, label = r.Memory, ""
	}
	if plan, peak := f.Run.Planned["total"], r.MemoryPeak["total"]; plan > 0 && peak > 0 {
		style := ""
		if peak > plan {
			style = s.warn
		}
		out.item().add("", "", "  ").add(s.dim, s.reset, "peak ").add(style, s.reset, monitor.Bytes(peak)).add("", "", " of "+monitor.Bytes(plan)+" planned")
		if n := min(f.width-100, 20); n >= 8 {
			out.item().add("", "", "  ").bar(s, f.o.unicode, s.accent, float64(peak)/float64(plan), n)
		}
		label = ""
	}
	for i, k := range monitor.BySize(by) {
		out.item().add("", "", label+"  ").add(s.dim, s.reset, k+" ").add("", "", monitor.Bytes(by[k]))
		if i == 0 {
			label = ""
		}
	}
	return out
}

func (f *frame) evalRow() (out row) {
	e, s := f.eval, f.o.s
	out.item().add(s.dim, s.reset, "eval   ").add(s.bold, s.reset, formatLoss(e.Loss))
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

func (f *frame) savedRow() (out row) {
	s := f.o.s
	out.item().add(s.dim, s.reset, "saved  ").add("", "", "step ").add(s.bold, s.reset, fmt.Sprint(f.Saved.Step))
	if !f.Saved.Time.IsZero() && !f.Over {
		out.item().add("", "", "  "+monitor.Clock(max(f.now.Sub(f.Saved.Time), 0))+" ago")
	}
	return out
}

func (f *frame) hostRow() (out row) {
	h, s := f.last.Host, f.o.s
	out.item().add(s.dim, s.reset, "host   ")
	if h.CPU != nil {
		out.item().add(s.bold, s.reset, monitor.Short(*h.CPU)).add("", "", " cpus")
	}
	value := func(label string, v *float64, format func(float64) string) {
		if v != nil {
			out.field(s, label, format(*v))
		}
	}
	size := func(v float64) string { return monitor.Bytes(int64(v)) }
	value("load", h.Load, monitor.Short)
	value("available", h.MemoryAvailable, size)
	value("disk free", h.DiskFree, size)
	value("read", h.DiskRead, formatRate)
	value("write", h.DiskWrite, formatRate)
	value("receive", h.NetReceive, formatRate)
	value("send", h.NetSend, formatRate)
	return out
}

func (f *frame) deviceRow() (out row) {
	d, s := f.last.Device, f.o.s
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
	out.item().add("", "", "  "+name)
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
		out.item().add("", "", "  ").add(s.warn, s.reset, d.Error)
	}
	return out
}

// textRows are up to two lines of text with a label; none for no text.
func (f *frame) textRows(label, text string) (rows []row) {
	s := f.o.s
	lines := wrap(clean(text), f.width-7)
	if len(lines) > 2 {
		lines = append(lines[:1], strings.Join(lines[1:], " ")) // the row cuts it
	}
	for _, line := range lines {
		var r row
		r.item().add(s.dim, s.reset, pad(label, 7))
		r.words(s.warn, s.reset, line)
		rows, label = append(rows, r), ""
	}
	return rows
}
