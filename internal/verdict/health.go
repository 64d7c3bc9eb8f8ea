package verdict

import (
	"fmt"
	"slices"

	"trireme/fault"
)

// notFinite finds losses and gradients that are NaN or infinite, and skipped steps.
func notFinite(c *curve) []Finding {
	skipped, first := 0, int64(0)
	for i, v := range c.of("skipped") {
		if v == 1 {
			if skipped++; skipped == 1 {
				first = int64(c.steps[i])
			}
		}
	}
	n := len(c.steps)
	if c.of("loss_scale") != nil {
		// With a loss scale an overflow skips its step: usual at the start and after growth of the scale.
		if skipped > 5 && float64(skipped) > 0.05*float64(n) {
			return []Finding{{Kind: "skipped", Severity: Warning, Steps: []int64{first},
				Text: fmt.Sprintf("%d of %d steps were skipped by the loss scale, from step %d on", skipped, n, first),
				Try:  []fault.Setting{fault.Set("precision.param_dtype", "bfloat16")}}}
		}
		return nil
	}
	if c.NonFinite == 0 && skipped == 0 {
		return nil
	}
	count := max(c.NonFinite, skipped)
	if c.NonFinite > 0 {
		first = c.FirstNonFinite
	}
	where := fmt.Sprintf("step %d", first)
	rate := c.of("lr")
	if i := slices.Index(c.steps, float64(first)); rate != nil && i >= 0 && rate[i] == rate[i] {
		where += fmt.Sprintf(" at a learning rate of %s", short(rate[i]))
	}
	f := Finding{Kind: "nan", Severity: Warning, Steps: []int64{first},
		Text: fmt.Sprintf("the loss or the gradient is NaN or infinite in %d of %d steps, first in %s; those steps were skipped", count, n, where),
		Try:  lower(c, "training.learning_rate", 0.3)}
	if count > n/10 || n > 0 && c.loss[n-1] != c.loss[n-1] {
		f.Severity = Error
	}
	return []Finding{f}
}

// lossScale finds a loss scale that collapses.
func lossScale(c *curve) []Finding {
	scale := finite(c.of("loss_scale"))
	if len(scale) < 20 {
		return nil
	}
	high, last := slices.Max(scale), scale[len(scale)-1]
	if last > high/1024 && last > 1 {
		return nil
	}
	return []Finding{{Kind: "loss_scale", Severity: Error, Text: fmt.Sprintf("the loss scale fell from %s to %s: gradients overflow float16 again and again", short(high), short(last)),
		Try: []fault.Setting{fault.Set("precision.param_dtype", "bfloat16")}}}
}

// learningRate finds a schedule that does not reach its peak.
func learningRate(c *curve) []Finding {
	rate, peak := c.of("lr"), c.number("training.learning_rate")
	// Of a run that begins at a checkpoint, the peak may be before its first step.
	if len(rate) < 2 || c.steps[0] > 1 || !(peak > 0) || !c.done() || c.Config["training.optimizer.name"] == "adafactor" {
		return nil
	}
	high := slices.Max(finite(append(rate, 0)))
	if high >= 0.98*peak {
		return nil
	}
	return []Finding{{Kind: "lr", Severity: Warning,
		Text: fmt.Sprintf("the learning rate reached %s, not %s: the warmup is longer than the run", short(high), short(peak)),
		Try:  []fault.Setting{fault.Set("training.warmup_steps", len(c.steps)/10)}}}
}

// clipping finds gradients that are always clipped.
func clipping(c *curve) []Finding {
	norm, limit := c.of("grad_norm"), c.number("training.max_grad_norm")
	if norm == nil || !(limit > 0) || len(norm) < 50 || len(divergence(c)) > 0 {
		return nil
	}
	later := finite(norm[len(norm)/2:])
	if len(later) == 0 {
		return nil
	}
	clipped := 0
	for _, v := range later {
		if v > limit {
			clipped++
		}
	}
	share, typical := float64(clipped)/float64(len(later)), median(later)
	if share < 0.95 || typical < 2*limit {
		return nil
	}
	f := Finding{Kind: "clipping", Severity: Info,
		Text: fmt.Sprintf("%s of the later steps are clipped: the median gradient norm is %s, training.max_grad_norm %s", percent(share), short(typical), short(limit)),
		Try:  []fault.Setting{fault.Set("training.max_grad_norm", short(typical*1.5))}}
	if typical > 10*limit {
		f.Severity = Warning
	}
	return []Finding{f}
}

// usualRate is a learning rate for a run whose own is above 1.
const usualRate = 0.001

// lower suggests a smaller value of a key.
func lower(c *curve, key string, factor float64) []fault.Setting {
	v := c.number(key)
	switch {
	case key == "training.learning_rate" && v > 1:
		return []fault.Setting{fault.Set(key, short(usualRate))}
	case v > 0:
		return []fault.Setting{fault.Set(key, short(v*factor))}
	}
	return nil
}
