package verdict

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/rundir"
)

// spikes finds steps whose loss is much higher than in the steps before, and the rows that they trained on.
func spikes(c *curve) []Finding {
	const before = 20
	if len(c.steps) < minSteps {
		return nil
	}
	type spike struct {
		i     int
		above float64 // by the noise
		base  float64
	}
	var all []spike
	// The loss of a step is compared with the median of the steps before and with the noise there. Only steps beyond
	// a first bound need the medians.
	for i := before; i < len(c.loss); i++ {
		v := c.loss[i]
		if !(v-c.loss[i-1] > 4*c.noise || len(all) > 0 && all[len(all)-1].i == i-1) {
			continue
		}
		past := c.loss[i-before : i]
		base := median(past)
		deviations := make([]float64, 0, before)
		for _, p := range past {
			deviations = append(deviations, math.Abs(p-base))
		}
		spread := max(1.4826*median(deviations), c.noise)
		if n := len(all); n > 0 && all[n-1].i >= i-3 { // the same incident
			continue
		}
		if v-base > 10*spread && v-base > 0.15*math.Abs(base) && v-base > 0.05 {
			all = append(all, spike{i, (v - base) / max(spread, 1e-9), base})
		}
	}
	if len(all) == 0 {
		return nil
	}
	n := len(all)
	slices.SortFunc(all, func(a, b spike) int { return int(math.Copysign(1, b.above-a.above)) })
	all = all[:min(5, n)]
	largest := all[0].i
	slices.SortFunc(all, func(a, b spike) int { return a.i - b.i })
	f := Finding{Kind: "spike", Severity: Warning, Try: lower(c, "training.max_grad_norm", 0.5)}
	if c.number("training.max_grad_norm") == 0 {
		f.Try = []fault.Setting{fault.Set("training.max_grad_norm", 1.0)}
	}
	f.Text = fmt.Sprintf("%d spikes of the loss, the largest:", n)
	if n == 1 {
		f.Text = "a spike of the loss:"
	}
	samples, norms := c.of("samples"), c.of("grad_norm")
	for k, s := range all {
		if k > 0 {
			f.Text += ";"
		}
		f.Text += fmt.Sprintf(" step %d (%s after %s", int64(c.steps[s.i]), short(c.loss[s.i]), short(s.base))
		if norms != nil && norms[s.i] == norms[s.i] {
			f.Text += fmt.Sprintf(", gradient norm %s", short(norms[s.i]))
		}
		if from, to, ok := rows(c, samples, s.i); ok {
			f.Text += fmt.Sprintf(", samples %d to %d of the run", from, to)
		}
		f.Text += ")"
		f.Steps = append(f.Steps, int64(c.steps[s.i]))
	}
	f.Advice = "look at the rows of these steps" + c.showRows(samples, largest)
	if n <= max(2, len(c.steps)/2000) { // recovered: rare spikes are usual
		f.Severity = Info
		if last := all[len(all)-1]; last.i > len(c.loss)-5 {
			f.Severity = Warning
		}
	}
	return []Finding{f}
}

// odd are characters that a shell would not read as they are.
const odd = " \t\n'\"\\$`&|;<>()*?[]{}!#~"

// showRows returns a command that prints the rows of step i. It needs steps with equal numbers of rows.
func (c *curve) showRows(samples []float64, i int) string {
	if c.Dir == "" || strings.ContainsAny(c.Dir, odd) || samples == nil || c.steps[0] != 1 || slices.ContainsFunc(samples[:i+1], func(n float64) bool { return n != samples[0] || n < 1 }) {
		return ""
	}
	return fmt.Sprintf(": trireme data show --config %s --step %d -n %d", filepath.Join(c.Dir, rundir.Config), int64(c.steps[i]), int64(samples[i]))
}

// rows returns the indices of the samples of step i in the order of the run, from 0. They are known if the
// records begin with step 1 and leave no step out.
func rows(c *curve, samples []float64, i int) (from, to int64, ok bool) {
	if samples == nil || c.steps[0] != 1 || c.steps[i] != float64(i+1) {
		return 0, 0, false
	}
	sum := 0.0
	for _, n := range samples[:i] {
		sum += n
	}
	if n := samples[i]; n >= 1 && sum == sum {
		return int64(sum), int64(sum+n) - 1, true
	}
	return 0, 0, false
}
