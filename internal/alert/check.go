package alert

import (
	"math"
	"time"

	"trireme/internal/runlog"
	"trireme/monitor"
)

// Check applies rules to the records of a run and returns a message for each rule whose incident has not ended.
// A rule about silence counts from the last record to now, for a run that has not ended.
func Check(run *runlog.Run, alerts []monitor.Alert, now time.Time) ([]Message, error) {
	var out []Message
	for _, a := range alerts {
		c, err := monitor.ParseCondition(a.When)
		if err != nil {
			return nil, err
		}
		r := &rule{Alert: a, Condition: c}
		step, value := int64(0), math.NaN()
		if c.Silence > 0 {
			_, step, _ = run.Steps()
			last := run.Summary("time").Last
			r.firing = run.Card().Ended == nil && last == last && now.Sub(time.UnixMilli(int64(1000*last))) > c.Silence
		} else {
			columns, err := run.Columns(0, 0, c.Metric)
			if err != nil {
				return nil, err
			}
			for i, v := range columns[1] {
				if !runlog.Missing(v) {
					r.step(v)
					step, value = int64(columns[0][i]), v
				}
			}
		}
		if r.firing {
			m := message(r, step, nil)
			if c.Silence == 0 {
				m = message(r, step, &value)
			}
			m.Run, m.Dir, m.Time = run.Card().ID, run.Dir(), now.UTC()
			out = append(out, m)
		}
	}
	return out, nil
}
