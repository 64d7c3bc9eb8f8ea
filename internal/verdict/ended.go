package verdict

import (
	"fmt"

	"trireme/fault"
	"trireme/internal/rundir"
	"trireme/monitor"
)

// ended finds a run that ended before its last step.
func ended(c *curve) []Finding {
	var last monitor.Event // start, resume or stop
	saved := int64(-1)
	for _, e := range c.Events {
		switch e.Kind {
		case monitor.EventStart, monitor.EventResume, monitor.EventStop:
			last = e
		case monitor.EventCheckpoint:
			saved = e.Step
		}
	}
	stop := last.Kind == monitor.EventStop
	n := len(c.steps)
	if n == 0 || c.MaxSteps == 0 || int64(c.steps[n-1]) >= c.MaxSteps || last.Kind == "" || c.Running && !stop {
		return nil
	}
	at := int64(c.steps[n-1])
	f := Finding{Kind: "ended", Severity: Warning, Steps: []int64{at}, Try: []fault.Setting{fault.Set("resume", "auto")}}
	where := fmt.Sprintf("step %d of %d", at, c.MaxSteps)
	switch {
	case !stop:
		f.Text = "the run ended at " + where + " without a record of its end: it was killed, or its machine failed"
	case last.Exit != nil && rundir.ExitState(*last.Exit) == rundir.Stopped:
		f.Severity, f.Text = Info, "the run was stopped at "+where
	case last.Exit != nil:
		f.Text = fmt.Sprintf("the run failed at %s with code %d", where, *last.Exit)
	default:
		f.Text = "the run ended at " + where
	}
	if saved < 0 {
		f.Text += "; it has no checkpoint"
		f.Try = nil
		f.Advice = "start it again"
	} else {
		f.Text += fmt.Sprintf("; its last checkpoint is of step %d", saved)
	}
	return []Finding{f}
}
