package view

import (
	"slices"
	"time"

	"trireme/monitor"
)

// Run describes a run, besides its records.
type Run struct {
	Dir     string
	About   string           // model, ranks, strategy, device; may be empty
	Planned map[string]int64 // peak tensor bytes of a rank by category, and total; nil if unknown
}

// Checkpoint is a saved checkpoint.
type Checkpoint struct {
	Step int64
	Time time.Time
}

// State has the facts of a run that frames show. It is not safe for concurrent use.
type State struct {
	Run     Run
	Saved   *Checkpoint // the last; nil: none
	Limit   string      // of the run's speed; empty: unknown
	Warning string      // of the run's health; empty: none
	// Over is true if the run has ended; Ended says how.
	Over  bool
	Ended string
	Bad   bool // the run failed

	began  time.Time // of the display
	last   monitor.Record
	steps  int // number of records
	eta    monitor.ETA
	left   time.Duration // until the end; negative: unknown
	eval   *monitor.Evaluation
	curves map[string]*curve
	notes  []string // the newest last
}

// maxNotes is the number of notes kept.
const maxNotes = 500

// metric is a number of a record that has a curve.
type metric struct {
	name, label string
	value       func(monitor.Record) float64
	format      func(float64) string
}

// metrics are those with curves. The first ones are in the overview.
var metrics = []metric{
	{"loss", "loss", func(r monitor.Record) float64 { return r.Loss }, formatLoss},
	{"lr", "lr", func(r monitor.Record) float64 { return r.LR }, formatScientific},
	{"grad_norm", "gnorm", func(r monitor.Record) float64 { return r.GradNorm }, monitor.Short},
	{"tokens_per_second", "tok/s", monitor.Record.TokensPerSecond, monitor.Thousands},
	{"step_seconds", "step", func(r monitor.Record) float64 { return r.StepSeconds }, formatSeconds},
	{"mfu", "mfu", func(r monitor.Record) float64 { return r.MFU }, formatPercent},
	{"comm_fraction", "comm", func(r monitor.Record) float64 { return r.CommFraction }, formatPercent},
	{"data_fraction", "data", func(r monitor.Record) float64 { return r.DataFraction }, formatPercent},
	{"skew", "skew", func(r monitor.Record) float64 { return r.Skew }, monitor.Short},
	{"rss", "resident", func(r monitor.Record) float64 { return float64(r.Resident.Now) }, func(v float64) string { return monitor.Bytes(int64(v)) }},
}

// overviewCharts is the number of metrics in the overview.
const overviewCharts = 4

// Metrics returns the names of the metrics with curves, as in metrics.jsonl.
func Metrics() (names []string) {
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

// NewState returns the state of a run without records.
func NewState() *State {
	s := &State{began: time.Now(), left: -1, curves: map[string]*curve{}}
	for _, m := range metrics {
		s.curves[m.name] = &curve{}
	}
	return s
}

// Fill sets the history of a metric to means of each steps, before the first Record.
func (s *State) Fill(name string, means []float64, each int) {
	if c := s.curves[name]; c != nil {
		c.fill(means, each)
	}
}

// Show sets the last record without adding to curves, for a history set by Fill.
func (s *State) Show(r monitor.Record) {
	s.left = s.eta.Remaining(r)
	s.last = r
	s.steps++
}

// Record adds a step.
func (s *State) Record(r monitor.Record) {
	s.Show(r)
	for _, m := range metrics {
		s.curves[m.name].add(m.value(r))
	}
}

// Evaluate sets the last evaluation.
func (s *State) Evaluate(e monitor.Evaluation) { s.eval = &e }

// Note adds a line to the pane of notes.
func (s *State) Note(text string) {
	if len(s.notes) == maxNotes {
		s.notes = slices.Delete(s.notes, 0, 1)
	}
	s.notes = append(s.notes, text)
}
