package monitor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// frame is what the live view shows, and how its lines are made. It does no output.
type frame struct {
	began time.Time // of the view
	last  Record
	steps int // records so far
	left  time.Duration
	evals *Evaluation
	loss  curve
	over  bool
}

// styles are the escape sequences, empty without color.
type styles struct{ bold, dim, accent, warn, reset string }

var colors = styles{"\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[33m", "\x1b[0m"}

// row is a line under construction whose width is known: what does not fit is left out.
type row struct {
	b           strings.Builder
	width, used int
	full        bool
}

// add appends text in a style; text has one column a rune.
func (r *row) add(style, reset, text string) *row {
	n := len([]rune(text))
	if n == 0 {
		return r
	}
	if r.full || r.used+n > r.width {
		r.full = true
		return r
	}
	r.used += n
	if style == "" {
		r.b.WriteString(text)
	} else {
		r.b.WriteString(style + text + reset)
	}
	return r
}

// lines draws the frame at a moment on so many columns.
func (f *frame) lines(now time.Time, width int, unicode bool, s styles) []string {
	width-- // the last column stays free: some terminals go to the next line after it
	if f.steps == 0 {
		r := &row{width: width}
		r.add(s.dim, s.reset, "starting").add("", "", "  "+clock(now.Sub(f.began)))
		return []string{r.b.String()}
	}
	r := f.last
	rows := []*row{f.progress(now, width, unicode, s)}
	field := func(to *row, label, value string) {
		if value != "" {
			to.add("", "", "  ").add(s.dim, s.reset, label+" ").add("", "", value)
		}
	}

	loss := &row{width: width}
	loss.add(s.dim, s.reset, "loss   ").add(s.bold, s.reset, fmt.Sprintf("%.4f", r.Loss)).add("", "", "  ")
	loss.add(s.accent, s.reset, f.loss.draw(min(max(width-46, 0), 40), unicode))
	field(loss, "lr", fmt.Sprintf("%.2e", r.LR))
	field(loss, "gnorm", short(r.GradNorm))
	for _, k := range sortedKeys(r.Means) {
		field(loss, k, short(r.Means[k]))
	}
	if r.Skipped || !r.finite() {
		loss.add("", "", "  ").add(s.warn, s.reset, "not finite: skipped")
	}

	speed := &row{width: width}
	speed.add(s.dim, s.reset, "speed  ").add(s.bold, s.reset, thousands(r.TokensPerSecond)).add("", "", " tok/s")
	field(speed, "step", short(1000*r.StepSeconds)+" ms")
	field(speed, "mfu", map[bool]string{true: "n/a", false: percent(r.MFU) + "%"}[r.MFU == 0])
	if r.WorldSize > 1 {
		field(speed, "comm", fmt.Sprintf("%.1f%%", 100*r.CommFraction))
	}
	field(speed, "data", fmt.Sprintf("%.1f%%", 100*r.DataFraction))
	if r.WorldSize > 1 {
		field(speed, "ranks", fmt.Sprint(r.WorldSize))
	}
	rows = append(rows, loss, speed)

	if used := r.used(); used > 0 {
		m := &row{width: width}
		m.add(s.dim, s.reset, "memory ").add(s.bold, s.reset, Bytes(used))
		if r.MemoryLimit > 0 {
			m.add("", "", " of "+Bytes(r.MemoryLimit))
		}
		by := r.Memory
		if len(r.MemoryPeak) > 0 { // most of what a step needs is given back by its end
			by = r.MemoryPeak
			m.add("", "", "  at most:")
		}
		for _, k := range bySize(by) {
			field(m, k, Bytes(by[k]))
		}
		rows = append(rows, m)
	}
	if e := f.evals; e != nil {
		m := &row{width: width}
		m.add(s.dim, s.reset, "eval   ").add(s.bold, s.reset, fmt.Sprintf("%.4f", e.Loss))
		if e.Accuracy != nil {
			field(m, "accuracy", fmt.Sprintf("%.4f", *e.Accuracy))
			if e.MacroF1 != nil {
				field(m, "macro_f1", fmt.Sprintf("%.4f", *e.MacroF1))
			}
		} else {
			field(m, "perplexity", short(e.Perplexity()))
		}
		for _, k := range sortedKeys(e.Means) {
			field(m, k, short(e.Means[k]))
		}
		field(m, "at step", fmt.Sprint(e.Step))
		rows = append(rows, m)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.b.String()
	}
	return out
}

// progress is the first line: steps, bar, time to go, or how long nothing has come.
func (f *frame) progress(now time.Time, width int, unicode bool, s styles) *row {
	r, line := f.last, &row{width: width}
	label, tail, style := "", "", ""
	silent := now.Sub(r.Time)
	switch {
	case f.over:
	case silent > max(5*time.Second, time.Duration(3*r.StepSeconds*float64(time.Second))):
		tail, style = "since last step "+clock(silent), s.warn
	case f.left >= 0 && r.MaxSteps > 0:
		label, tail = "eta ", clock(f.left)
	}
	line.add(s.dim, s.reset, "step   ").add(s.bold, s.reset, fmt.Sprint(r.Step))
	if r.MaxSteps > 0 {
		done := min(float64(r.Step)/float64(r.MaxSteps), 1)
		line.add("", "", fmt.Sprintf("/%d  ", r.MaxSteps))
		full, empty := "━", "─"
		if !unicode {
			full, empty = "=", "-"
		}
		n := min(max(width-line.used-len("  100%  ")-len(label+tail), 0), 40)
		k := int(done * float64(n))
		line.add(s.accent, s.reset, strings.Repeat(full, k)).add(s.dim, s.reset, strings.Repeat(empty, n-k))
		line.add("", "", fmt.Sprintf("  %.0f%%", 100*done))
	}
	return line.add("", "", "  ").add(s.dim, s.reset, label).add(style, s.reset, tail)
}

// bySize are the categories that hold something, the largest first.
func bySize(m map[string]int64) []string {
	var keys []string
	for k, v := range m {
		if v > 0 && k != "total" {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	return keys
}

// thousands is a whole number with commas.
func thousands(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) >= 1e15 {
		return fmt.Sprint(v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// curve keeps a value's whole course in bounded space: when it is full, neighbours are
// averaged, and each point stands for twice as many steps.
type curve struct {
	points []float64
	each   int // steps a point
	sum    float64
	n      int
}

const maxPoints = 512

func (c *curve) add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if c.each == 0 {
		c.each = 1
	}
	c.sum += v
	if c.n++; c.n < c.each {
		return
	}
	c.points = append(c.points, c.sum/float64(c.n))
	c.sum, c.n = 0, 0
	if len(c.points) == maxPoints {
		for i := range maxPoints / 2 {
			c.points[i] = (c.points[2*i] + c.points[2*i+1]) / 2
		}
		c.points = c.points[:maxPoints/2]
		c.each *= 2
	}
}

// draw is the course on at most width columns, from its lowest to its highest value.
func (c *curve) draw(width int, unicode bool) string {
	marks := []rune("▁▂▃▄▅▆▇█")
	if !unicode {
		marks = []rune("_.-=+*#%")
	}
	n := min(width, len(c.points))
	if n == 0 {
		return ""
	}
	means := make([]float64, n)
	for i := range means {
		part := c.points[i*len(c.points)/n : (i+1)*len(c.points)/n]
		for _, v := range part {
			means[i] += v / float64(len(part))
		}
	}
	low, high := slices.Min(means), slices.Max(means)
	var b strings.Builder
	for _, v := range means {
		k := 0
		if high > low {
			k = int((v - low) / (high - low) * float64(len(marks)-1) * 1.0001)
		}
		b.WriteRune(marks[min(k, len(marks)-1)])
	}
	return b.String()
}
