package reportcard

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"trireme/fault"
	"trireme/internal/runlog"
	"trireme/internal/verdict"
	"trireme/monitor"
)

// Card has the contents of a report.
type Card struct {
	Title    string
	Verdict  verdict.Report
	Facts    []Fact // of the run and its environment
	Values   []Fact // last values of metrics
	Memory   []Fact // peak by category
	Saved    []Fact // checkpoints
	Events   []Fact // stops, resumes and alerts
	Config   []Fact
	Plots    []Plot
	Flag     func(fault.Setting) string // formats a suggestion
	Produced time.Time
}

// Fact is a name and a value.
type Fact struct{ Name, Value string }

// Plot is the chart of some metrics.
type Plot struct {
	Title string
	SVG   string
}

// Of reads the contents from a run.
func Of(run *runlog.Run, flag func(fault.Setting) string, now time.Time) (c Card, err error) {
	c = Card{Title: run.Name(), Flag: flag, Produced: now.UTC()}
	if c.Verdict, err = verdict.Of(run); err != nil {
		return c, err
	}
	card := run.Card()
	add := func(to *[]Fact, name, format string, args ...any) {
		*to = append(*to, Fact{name, fmt.Sprintf(format, args...)})
	}
	add(&c.Facts, "directory", "%s", run.Dir())
	if card.ID != "" {
		add(&c.Facts, "identity", "%s", card.ID)
	}
	if !card.Started.IsZero() {
		add(&c.Facts, "started", "%s", card.Started.UTC().Format(time.RFC3339))
		add(&c.Facts, "command", "%s", strings.Join(card.Command, " "))
		add(&c.Facts, "version", "%s", card.Version)
		add(&c.Facts, "ranks", "%d, %s on %s", card.World, card.Strategy, card.Device)
		add(&c.Facts, "parameters", "%d", card.Parameters)
	}
	if card.Ended != nil && card.Exit != nil {
		add(&c.Facts, "ended", "%s with code %d", card.Ended.UTC().Format(time.RFC3339), *card.Exit)
	}
	rec, eval, err := run.Last()
	if err != nil {
		return c, err
	}
	if rec != nil {
		if rec.MaxSteps > 0 {
			add(&c.Facts, "steps", "%d of %d", rec.Step, rec.MaxSteps)
		} else {
			add(&c.Facts, "steps", "%d", rec.Step)
		}
		for _, name := range slices.Sorted(maps.Keys(rec.MemoryPeak)) {
			add(&c.Memory, name, "%s", monitor.Bytes(int64(run.Summary("memory_peak."+name).Max)))
		}
		if rec.Resident.Peak > 0 {
			add(&c.Memory, "resident", "%s", monitor.Bytes(rec.Resident.Peak))
		}
		if rec.Device != nil {
			add(&c.Facts, "GPU", "%d x %s", rec.Device.Count, rec.Device.Name)
		}
	}
	for _, m := range []string{"loss", "eval_loss", "grad_norm", "lr", "tokens_per_second", "mfu", "step_seconds", "tokens_total"} {
		if s := run.Summary(m); s.Count > 0 {
			add(&c.Values, m, "%.6g (min %.6g, max %.6g)", s.Last, s.Min, s.Max)
		}
	}
	if eval != nil && eval.Accuracy != nil {
		add(&c.Values, "accuracy", "%.4f", *eval.Accuracy)
	}
	saved, err := run.Checkpoints()
	if err != nil {
		return c, err
	}
	for _, s := range saved {
		add(&c.Saved, fmt.Sprintf("step %d", s.Step), "%s, %s", s.Path, monitor.Bytes(s.Bytes))
	}
	events, err := run.Events()
	if err != nil {
		return c, err
	}
	for _, e := range events {
		switch e.Kind {
		case monitor.EventStart, monitor.EventResume, monitor.EventStop, monitor.EventAlert:
			add(&c.Events, e.Time.UTC().Format(time.RFC3339), "%s at step %d: %s", e.Kind, e.Step, e.Text)
		}
	}
	config := run.Config()
	for _, k := range slices.Sorted(maps.Keys(config)) {
		add(&c.Config, k, "%s", config[k])
	}
	return c, c.plot(run)
}

// plot draws the curves.
func (c *Card) plot(run *runlog.Run) error {
	for _, p := range []struct {
		title   string
		metrics []string
	}{
		{"loss", []string{"loss", "eval_loss"}}, {"gradient norm", []string{"grad_norm"}}, {"learning rate", []string{"lr"}},
		{"tokens per second", []string{"tokens_per_second"}}, {"step time, s", []string{"step_seconds"}}, {"resident memory, bytes", []string{"rss"}},
	} {
		var lines []Line
		for _, m := range p.metrics {
			s, err := run.Series(m, 0, 0, 600)
			if err != nil {
				return err
			}
			if len(s.Buckets) > 0 {
				lines = append(lines, Line{Name: m, Buckets: s.Buckets})
			}
		}
		if len(lines) > 0 {
			c.Plots = append(c.Plots, Plot{p.title, SVG(p.title, lines, false)})
		}
	}
	return nil
}

// Line is a curve of a chart.
type Line struct {
	Name    string
	Buckets []runlog.Bucket
}

// bounds returns the ranges of the finite values of lines.
func bounds(lines []Line) (x0, x1, y0, y1 float64) {
	x0, x1, y0, y1 = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, b := range l.Buckets {
			x0, x1 = min(x0, float64(b.Step)), max(x1, float64(b.LastStep))
			if b.Count > 0 {
				y0, y1 = min(y0, b.Min), max(y1, b.Max)
			}
		}
	}
	if !(x0 <= x1) {
		x0, x1 = 0, 1
	}
	if !(y0 <= y1) {
		y0, y1 = 0, 1
	}
	if x0 == x1 {
		x1++
	}
	if y0 == y1 {
		d := max(math.Abs(y0)*0.1, 1e-9)
		y0, y1 = y0-d, y1+d
	}
	return x0, x1, y0, y1
}
