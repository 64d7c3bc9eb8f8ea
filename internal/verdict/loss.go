package verdict

import (
	"fmt"
	"math"
	"slices"

	"trireme/fault"
)

// window is the number of steps whose median smooths the curve.
func (c *curve) window() int { return max(5, len(c.steps)/40) }

// divergence finds a loss that ends well above its minimum.
func divergence(c *curve) []Finding {
	s := smooth(c.loss, c.window())
	if len(c.steps) < minSteps || len(s) < 4 {
		return nil
	}
	low, first, last := 0, s[0], s[len(s)-1]
	for i, v := range s {
		if v < s[low] {
			low = i
		}
	}
	rise := last - s[low]
	// The first window may be above the first losses already.
	later := finite(c.loss[len(c.loss)/2:])
	slices.Sort(later)
	if start := median(c.loss[:3]); start < s[low] && len(later) > 0 && later[len(later)/20]-start > 0.1*math.Abs(start) {
		return []Finding{{Kind: "divergence", Severity: Error, Steps: []int64{int64(c.steps[0])},
			Text: fmt.Sprintf("the loss never fell below its start: %s in the first steps, at least %s later, %s at the end", short(start), short(s[low]), short(last)), Try: lower(c, "training.learning_rate", 0.1)}}
	}
	if low >= len(s)-2 || rise < 6*c.noise || rise < 0.25*(first-s[low]) || rise < 0.05*math.Abs(s[low]) || !(s[len(s)-2]-s[low] > rise/3) {
		return nil
	}
	at := int64(c.steps[min(len(c.steps)-1, low*c.window()+c.window()/2)])
	f := Finding{Kind: "divergence", Severity: Error, Steps: []int64{at},
		Text: fmt.Sprintf("the loss rises: from %s around step %d to %s at the end", short(s[low]), at, short(last)), Try: lower(c, "training.learning_rate", 0.3)}
	if c.number("training.max_grad_norm") == 0 {
		f.Try = append(f.Try, fault.Set("training.max_grad_norm", 1.0))
	}
	if c.number("training.warmup_steps") == 0 && c.number("training.warmup_ratio") == 0 {
		f.Try = append(f.Try, fault.Set("training.warmup_steps", max(1, len(c.steps)/20)))
	}
	return []Finding{f}
}

// plateau finds a loss that never fell.
func plateau(c *curve) []Finding {
	s := smooth(c.loss, c.window())
	if len(c.steps) < 100 || len(s) < 8 {
		return nil
	}
	n := len(s)
	first, last := s[0], median(s[n-n/4:])
	fell := first - last
	rate := c.of("lr")
	trained := rate == nil || slices.ContainsFunc(rate, func(v float64) bool { return v > 0 })
	error := c.noise / math.Sqrt(float64(c.window()))
	switch {
	case math.Abs(fell) < 3*error+0.005*math.Abs(first) && trained && math.Abs(first) > 1e-3 && len(divergence(c)) == 0:
		f := Finding{Kind: "plateau", Severity: Warning, Text: fmt.Sprintf("the loss does not fall: %s in the first %d steps, %s in the last quarter", short(first), c.window(), short(last))}
		if v := c.number("training.learning_rate"); v > 0 {
			f.Try = []fault.Setting{fault.Set("training.learning_rate", short(v*3))}
		}
		return []Finding{f}
	case fell > 0 && len(c.steps) >= 400:
		half := median(s[n/2 : n-n/4])
		if math.Abs(half-last) < max(2*error, 0.01*fell) {
			return []Finding{{Kind: "plateau", Severity: Info, Text: fmt.Sprintf("the loss is flat since about step %d: %s, then %s", int64(c.steps[len(c.steps)/2]), short(half), short(last)), Advice: "more steps of this kind add little"}}
		}
	}
	return nil
}

// overfitting finds an evaluation loss that rises while the training loss falls.
func overfitting(c *curve) []Finding {
	all := c.Metrics["eval_loss"]
	var steps, losses []float64
	for i, v := range all {
		if v-v == 0 {
			steps, losses = append(steps, c.Steps[i]), append(losses, v)
		}
	}
	n := len(losses)
	if n < 4 {
		return nil
	}
	best := 0
	for i, v := range losses {
		if v < losses[best] {
			best = i
		}
	}
	if best > n-3 || losses[n-1]-losses[best] < 0.02*math.Abs(losses[best]) || losses[n-2] < losses[best]+(losses[n-1]-losses[best])/4 {
		return nil
	}
	from, to := 0, len(c.steps)
	for from < to && c.steps[from] < steps[best] {
		from++
	}
	w := max(1, (to-from)/4)
	if to-from < 4 || from < 1 {
		return nil
	}
	before, after := median(c.loss[max(0, from-w):from+1]), median(c.loss[to-w:])
	if !(after < before) {
		return nil
	}
	return []Finding{{Kind: "overfitting", Severity: Warning, Steps: []int64{int64(steps[best])},
		Text: fmt.Sprintf("the evaluation loss rises from %s at step %d to %s at step %d, while the training loss falls from %s to %s", short(losses[best]), int64(steps[best]), short(losses[n-1]), int64(steps[n-1]), short(before), short(after)),
		Try:  []fault.Setting{fault.Set("training.load_best_model_at_end", true), fault.Set("training.max_steps", int64(steps[best]))}}}
}
