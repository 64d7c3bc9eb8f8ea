package monitor

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Line writes one line of text per step, for output that is not a terminal:
//
//	step=1240/5000 loss=2.1431 lr=2.71e-05 gnorm=0.84 tok/s=800421 mfu=38.6% step_ms=655 comm=11.3% data=0.4% rss=61.4/79.6GiB skew=1.07 eta=0h43m
//
// tok/s counts all tokens. If some have no label, label_tok/s and samples/s follow. The end of an
// epoch adds a line.
type Line struct {
	w   io.Writer
	eta ETA
}

var _ Sink = (*Line)(nil)

// NewLine writes to w.
func NewLine(w io.Writer) *Line { return &Line{w: w} }

// Record writes one line, and another at the end of an epoch.
func (l *Line) Record(r Record) error {
	text := FormatLine(r, l.eta.Remaining(r))
	if r.EpochLoss != nil {
		text += "\n" + EpochLine(r)
	}
	return l.print(text)
}

// EpochLine formats the mean loss of an epoch, which r ends.
func EpochLine(r Record) string {
	return fmt.Sprintf("epoch=%.0f step=%d mean_loss=%.4f", r.Epoch, r.Step, *r.EpochLoss)
}

// FormatLine formats a record without a line end; left is the time remaining, negative if unknown.
func FormatLine(r Record, left time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "step=%d", r.Step)
	if r.MaxSteps > 0 {
		fmt.Fprintf(&b, "/%d", r.MaxSteps)
	}
	fmt.Fprintf(&b, " loss=%.4f lr=%.2e gnorm=%s tok/s=%.0f", r.Loss, r.LR, Short(r.GradNorm), r.TokensPerSecond())
	if r.HasUnlabeled() {
		if r.LabelTokens > r.Samples { // else rows have labels, not tokens
			fmt.Fprintf(&b, " label_tok/s=%.0f", r.LabelTokensPerSecond())
		}
		b.WriteString(" samples/s=" + Short(r.SamplesPerSecond()))
	}
	fmt.Fprintf(&b, " mfu=%s step_ms=%s", r.FormatMFU(), Short(1000*r.StepSeconds))
	if r.WorldSize > 1 {
		fmt.Fprintf(&b, " comm=%.1f%%", 100*r.CommFraction)
	}
	fmt.Fprintf(&b, " data=%.1f%%", 100*r.DataFraction)
	name := "rss" // not the peak of a plan, which counts tensors
	if r.Resident.Now == 0 {
		name = "tensors"
	}
	if used := r.Used(); used > 0 && r.MemoryLimit > 0 {
		fmt.Fprintf(&b, " %s=%.1f/%.1fGiB", name, gib(used), gib(r.MemoryLimit))
	} else if used > 0 {
		fmt.Fprintf(&b, " %s=%s", name, Bytes(used))
	}
	if r.Skew > 0 {
		fmt.Fprintf(&b, " skew=%.2f", r.Skew)
	}
	if left >= 0 && r.MaxSteps > 0 {
		b.WriteString(" eta=" + Clock(left))
	}
	writeMeans(&b, r.Means)
	if r.Skipped {
		b.WriteString(" skipped (gradient not finite")
		if r.LossScale > 0 {
			fmt.Fprintf(&b, " at loss scale %s", Short(r.LossScale))
		}
		b.WriteString(")")
	}
	return b.String()
}

// Evaluate writes one line.
func (l *Line) Evaluate(e Evaluation) error {
	score := fmt.Sprintf("perplexity=%.2f", e.Perplexity())
	if e.Accuracy != nil {
		score = fmt.Sprintf("accuracy=%.4f", *e.Accuracy)
	}
	if e.MacroF1 != nil {
		score += fmt.Sprintf(" macro_f1=%.4f", *e.MacroF1)
	}
	var means strings.Builder
	writeMeans(&means, e.Means)
	step := ""
	if e.Step > 0 { // in a run
		step = fmt.Sprintf("step=%d ", e.Step)
	}
	return l.print(fmt.Sprintf("%seval_loss=%.4f %s%s eval_s=%.1f", step, e.Loss, score, means.String(), e.Seconds))
}

func writeMeans(b *strings.Builder, means map[string]float64) {
	for _, k := range sortedKeys(means) {
		fmt.Fprintf(b, " %s=%.4f", k, means[k])
	}
}

// Note writes the text as a line.
func (l *Line) Note(text string) error { return l.print(text) }

// Close does nothing.
func (l *Line) Close() error { return nil }

func (l *Line) print(s string) error {
	if _, err := io.WriteString(l.w, s+"\n"); err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	return nil
}

// Used returns the resident memory, or else the sum of tensor memory.
func (r Record) Used() int64 {
	if r.Resident.Now > 0 {
		return r.Resident.Now
	}
	var sum int64
	for k, v := range r.Memory {
		if k != "total" && k != "offloaded" {
			sum += v
		}
	}
	return sum
}

// ETA estimates the time remaining from elapsed time, which includes evaluations and saves. The first
// record only starts the clock, since its step includes warm-up.
type ETA struct {
	first Record
	began bool
}

// Remaining returns a negative duration if unknown.
func (e *ETA) Remaining(r Record) time.Duration {
	if !e.began || r.Step <= e.first.Step {
		e.began, e.first = true, r
		if r.MaxSteps > 0 && r.StepSeconds > 0 {
			return time.Duration(float64(r.MaxSteps-r.Step) * r.StepSeconds * float64(time.Second))
		}
		return -1
	}
	if r.MaxSteps <= 0 {
		return -1
	}
	perStep := float64(r.Time.Sub(e.first.Time)) / float64(r.Step-e.first.Step)
	return time.Duration(float64(max(r.MaxSteps-r.Step, 0)) * perStep)
}

// Clock formats a duration as 0h43m, or as 43s below two minutes.
func Clock(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	}
	m := int(d.Round(time.Minute).Minutes())
	return fmt.Sprintf("%dh%02dm", m/60, m%60)
}

// FormatMFU formats MFU as 38.6%, or n/a if the peak is unknown.
func (r Record) FormatMFU() string {
	if r.PeakFLOPS == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.1f%%", 100*r.MFU)
}

// SI formats a number with three digits and an SI prefix: 48.6 G.
func SI(v float64) string {
	unit := 0
	for ; math.Abs(v) >= 1000 && unit < 6; unit++ {
		v /= 1000
	}
	return Short(v) + " " + [...]string{"", "K", "M", "G", "T", "P", "E"}[unit]
}

// FLOPS formats a speed: 249 GFLOP/s.
func FLOPS(v float64) string { return SI(v) + "FLOP/s" }

// Short formats a number with three significant digits, with an exponent only for extreme values.
func Short(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case math.IsNaN(v) || math.IsInf(v, 0) || a < 0.001 || a >= 1e6:
		return fmt.Sprintf("%.3g", v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

// Bytes formats a size with a binary prefix: 1.2MiB.
func Bytes(n int64) string {
	v, unit := float64(n), 0
	for ; math.Abs(v) >= 1024 && unit < 4; unit++ {
		v /= 1024
	}
	name := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
	if unit == 0 {
		return fmt.Sprintf("%.0f%s", v, name)
	}
	return fmt.Sprintf("%.1f%s", v, name)
}

// BySize returns the keys with positive values, except total, the largest first.
func BySize(m map[string]int64) []string {
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

// Thousands formats an integer with commas.
func Thousands(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) >= 1e15 {
		return fmt.Sprint(v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
