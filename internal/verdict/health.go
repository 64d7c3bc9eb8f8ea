package verdict

import (
	"fmt"
	"math"
	"slices"

	"trireme/fault"
	"trireme/monitor"
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
	f := Finding{Kind: "nan", Severity: Warning, Steps: []int64{first},
		Text: fmt.Sprintf("the loss or the gradient is NaN or infinite in %d of %d steps, first in step %d; those steps were skipped", count, n, first),
		Try:  lower(c, "training.learning_rate", 0.3)}
	if count > n/10 || n > 0 && c.loss[n-1] != c.loss[n-1] {
		f.Severity = Error
	}
	return []Finding{f}
}

// lower suggests a smaller value of a key.
func lower(c *curve, key string, factor float64) []fault.Setting {
	if v := c.number(key); v > 0 {
		return []fault.Setting{fault.Set(key, short(v*factor))}
	}
	return nil
}

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
	f.Advice = "look at the rows of these steps"
	if n <= max(2, len(c.steps)/2000) { // recovered: rare spikes are usual
		f.Severity = Info
		if last := all[len(all)-1]; last.i > len(c.loss)-5 {
			f.Severity = Warning
		}
	}
	return []Finding{f}
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
	case math.Abs(fell) < 3*error+0.005*math.Abs(first) && trained && math.Abs(first) > 1e-3:
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

// learningRate finds a schedule that does not reach its peak.
func learningRate(c *curve) []Finding {
	rate, peak := c.of("lr"), c.number("training.learning_rate")
	if len(rate) < 2 || !(peak > 0) || !c.done() || c.Config["training.optimizer.name"] == "adafactor" {
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
	if norm == nil || !(limit > 0) || len(norm) < 50 {
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

// memory finds memory near its limit.
func memory(c *curve) (out []Finding) {
	for _, m := range []struct{ used, limit, what string }{{"rss", "memory_limit", "resident memory of rank 0's process"}, {"device.memory_used", "device.memory_total", "GPU memory"}} {
		used, limit := finite(c.of(m.used)), finite(c.of(m.limit))
		if len(used) == 0 || len(limit) == 0 || !(limit[len(limit)-1] > 0) {
			continue
		}
		high, of := slices.Max(used), limit[len(limit)-1]
		if high < 0.93*of || m.used != "rss" && c.Config["device.preallocate"] == "true" {
			continue
		}
		out = append(out, Finding{Kind: "memory", Severity: Warning, Text: fmt.Sprintf("%s reached %s of %s (%s)", m.what, monitor.Bytes(int64(high)), monitor.Bytes(int64(of)), percent(high/of)),
			Try: []fault.Setting{fault.Set("activation_checkpointing.enabled", true), fault.Set("training.micro_batch_size", max(1, int(c.number("training.micro_batch_size"))/2))}})
	}
	return out
}

// disk finds a disk without space for the next checkpoint.
func disk(c *curve) []Finding {
	free := finite(c.of("host.disk_free"))
	size := int64(0)
	for _, e := range c.Events {
		if e.Kind == monitor.EventCheckpoint && e.Bytes > 0 {
			size = e.Bytes
		}
	}
	if len(free) == 0 {
		return nil
	}
	left := int64(free[len(free)-1])
	if left > max(2*size, 1<<30) {
		return nil
	}
	f := Finding{Kind: "disk", Severity: Warning, Text: fmt.Sprintf("%s are free on the disk of the run", monitor.Bytes(left)), Try: []fault.Setting{fault.Set("checkpoint.keep_last_n", 2)}}
	if size > 0 {
		f.Text += fmt.Sprintf(", and a checkpoint has %s", monitor.Bytes(size))
	}
	return []Finding{f}
}

// stalls finds times in which the run made no step.
func stalls(c *curve) []Finding {
	times, took := c.of("time"), c.of("step_seconds")
	if times == nil || took == nil || len(times) < 3 {
		return nil
	}
	usual := median(took)
	save, eval := c.of("save_seconds"), c.of("eval_seconds_between")
	worst, at, total, n := 0.0, 0, 0.0, 0
	for i := 1; i < len(times); i++ {
		gap := times[i] - times[i-1] - took[i]
		if save != nil && save[i] == save[i] {
			gap -= save[i]
		}
		if eval != nil && eval[i] == eval[i] {
			gap -= eval[i]
		}
		if !(gap > max(10*usual, 60)) || c.startedBetween(times[i-1], times[i]) {
			continue
		}
		n++
		total += gap
		if gap > worst {
			worst, at = gap, i
		}
	}
	if n == 0 {
		return nil
	}
	return []Finding{{Kind: "stall", Severity: Warning, Steps: []int64{int64(c.steps[at])},
		Text: fmt.Sprintf("the run stood still %d times, %.0f s in all; the longest for %.0f s before step %d", n, total, worst, int64(c.steps[at])), Advice: "look at the logs of the ranks at that time"}}
}

// startedBetween reports whether the run was started again, evaluated or saved between two times.
func (c *curve) startedBetween(a, b float64) bool {
	return slices.ContainsFunc(c.Events, func(e monitor.Event) bool {
		t := float64(e.Time.UnixNano()) / 1e9
		return t > a && t < b && e.Kind != monitor.EventNote && e.Kind != monitor.EventAlert
	})
}

// slowing finds steps that take longer and longer.
func slowing(c *curve) []Finding {
	took, tokens := c.of("step_seconds"), c.of("tokens")
	if took == nil || tokens == nil || len(took) < 200 {
		return nil
	}
	per := make([]float64, len(took))
	for i := range took {
		per[i] = took[i] / tokens[i]
	}
	n := len(per)
	early, late := median(per[n/10:n/3]), median(per[n-n/4:])
	if !(late > 1.3*early) {
		return nil
	}
	return []Finding{{Kind: "slowing", Severity: Warning,
		Text: fmt.Sprintf("steps take longer with time: %s tokens/s early, %s in the last quarter", monitor.Thousands(1/early), monitor.Thousands(1/late)), Advice: "compare host.cpu, device and split of early and late steps"}}
}
