package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"trireme/fault"
	"trireme/monitor"
)

// Input has the facts of a run. A slice of Metrics has a value per record, in the order of steps, or for the last
// records only; NaN is missing or not finite.
type Input struct {
	Dir      string               // of the run, for commands in advice; empty: unknown
	Steps    []float64            // of each record: steps and evaluations
	Metrics  map[string][]float64 // by name as in package runlog; absent: no record has it
	Config   map[string]string    // by path; empty: unknown
	Events   []monitor.Event
	MaxSteps int64 // 0: unknown
	Running  bool
	// NonFinite counts the steps whose loss or gradient norm is not finite; FirstNonFinite is the first.
	NonFinite      int
	FirstNonFinite int64
}

// Severity is the weight of a finding.
type Severity string

// The severities.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Health is the result for a run.
type Health string

// The results.
const (
	Healthy   Health = "healthy"
	Doubtful  Health = "doubtful"  // a warning
	Unhealthy Health = "unhealthy" // an error
	TooShort  Health = "too short" // too few steps to judge the curve, and no other finding
)

// Finding is one thing that a run shows.
type Finding struct {
	Kind     string   `json:"kind"` // such as spike or divergence
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`            // with numbers
	Steps    []int64  `json:"steps,omitempty"` // the steps that show it, up to 5
	// Try has settings that may help, and Advice other things to do; both may be empty.
	Try    []fault.Setting `json:"try,omitempty"`
	Advice string          `json:"advice,omitempty"`
}

// Report is the judgment of a run.
type Report struct {
	Health   Health    `json:"health"`
	Findings []Finding `json:"findings"` // the most severe first
	Speed    Speed     `json:"speed"`
	Steps    int       `json:"steps"` // with records
}

// minSteps is the number of steps below which a curve is not judged.
const minSteps = 30

// Judge judges a run.
func Judge(in Input) Report {
	c := newCurve(in)
	r := Report{Findings: []Finding{}, Steps: len(c.steps)}
	for _, check := range []func(*curve) []Finding{
		ended, notFinite, divergence, spikes, plateau, learningRate, clipping, overfitting, lossScale, memory, disk, stalls, slowing,
	} {
		r.Findings = append(r.Findings, check(c)...)
	}
	var slow []Finding
	r.Speed, slow = speed(c)
	r.Findings = append(r.Findings, slow...)
	rank := map[Severity]int{Error: 0, Warning: 1, Info: 2}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	has := func(s Severity) bool { // a slow run is healthy
		return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == s && f.Kind != "speed" })
	}
	r.Health = Healthy
	switch {
	case has(Error):
		r.Health = Unhealthy
	case has(Warning):
		r.Health = Doubtful
	case len(c.steps) < minSteps:
		r.Health = TooShort
	}
	return r
}

// curve is the input by step, without evaluations.
type curve struct {
	Input
	rows  []int // of the steps in the input
	steps []float64
	loss  []float64
	noise float64 // standard deviation of the loss between neighbors, robust
	cache map[string][]float64
}

func newCurve(in Input) *curve {
	c := &curve{Input: in, cache: map[string][]float64{}}
	evals := in.Metrics["eval_loss"]
	eval := in.Metrics["eval_tokens"]
	for i := range in.Steps {
		if i < len(evals) && evals[i] == evals[i] || i < len(eval) && eval[i] == eval[i] {
			continue
		}
		c.rows = append(c.rows, i)
		c.steps = append(c.steps, in.Steps[i])
	}
	c.loss = c.of("loss")
	if c.loss == nil {
		c.loss = make([]float64, len(c.steps))
		for i := range c.loss {
			c.loss[i] = math.NaN()
		}
	}
	var differences []float64
	for i := 1; i < len(c.loss); i++ {
		if d := c.loss[i] - c.loss[i-1]; d == d {
			differences = append(differences, math.Abs(d))
		}
	}
	c.noise = 1.4826 * median(differences) / math.Sqrt2
	return c
}

// of returns a metric by step; nil if no record has it.
func (c *curve) of(name string) []float64 {
	if v, ok := c.cache[name]; ok {
		return v
	}
	all := c.Metrics[name]
	if all == nil {
		return nil
	}
	v, before := make([]float64, len(c.rows)), len(c.Steps)-len(all)
	for i, row := range c.rows {
		if v[i] = math.NaN(); row >= before {
			v[i] = all[row-before]
		}
	}
	c.cache[name] = v
	return v
}

// number returns a value of the configuration; NaN if it is unknown.
func (c *curve) number(key string) float64 {
	v, err := strconv.ParseFloat(c.Config[key], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// done reports whether the run has made all its steps.
func (c *curve) done() bool {
	return c.MaxSteps > 0 && len(c.steps) > 0 && int64(c.steps[len(c.steps)-1]) >= c.MaxSteps
}

// median returns the median of the finite values; NaN if there are none.
func median(v []float64) float64 {
	s := finite(v)
	if len(s) == 0 {
		return math.NaN()
	}
	slices.Sort(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func finite(v []float64) []float64 {
	out := make([]float64, 0, len(v))
	for _, x := range v {
		if x-x == 0 {
			out = append(out, x)
		}
	}
	return out
}

// mean returns the mean of the finite values; 0 if there are none.
func mean(v []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range v {
		if x-x == 0 {
			sum, n = sum+x, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// smooth returns the medians of consecutive windows of w steps.
func smooth(v []float64, w int) (out []float64) {
	for part := range slices.Chunk(v, w) {
		if len(part) == w || len(out) == 0 {
			out = append(out, median(part))
		}
	}
	return out
}

func percent(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
