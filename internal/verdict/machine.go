package verdict

import (
	"fmt"
	"slices"

	"trireme/fault"
	"trireme/monitor"
)

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
