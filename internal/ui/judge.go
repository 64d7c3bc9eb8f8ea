package ui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"trireme/internal/rundir"
	"trireme/internal/verdict"
)

const (
	judgeEvery = 10 * time.Second // a run that goes on is judged again
	judgeRuns  = 200              // the newest runs, which the list has verdicts of
)

// finding is one of the verdict.
type finding struct {
	Level string   `json:"level"` // error, warning, info
	Text  string   `json:"text"`
	Try   []string `json:"try"` // settings, or what else to do
	Step  int64    `json:"step"`
}

// judgment is the last verdict of a run.
type judgment struct {
	sign   signature // of the files that it read
	time   time.Time
	report verdict.Report
}

// judge returns the verdict of the run, of files that are no older than judgeEvery.
func (e *entry) judge(ctx context.Context) (verdict.Report, error) {
	e.judging.Lock()
	defer e.judging.Unlock()
	s := e.signature()
	if !e.judged.time.IsZero() && (s == e.judged.sign || time.Since(e.judged.time) < judgeEvery) {
		return e.judged.report, nil
	}
	run, err := e.records(ctx)
	if err != nil {
		return verdict.Report{}, err
	}
	report, err := verdict.Of(run)
	if err != nil {
		return report, &statusError{422, err}
	}
	e.judged = judgment{s, time.Now(), report}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.row.Health, e.row.Verdict = string(report.Health), summary(report)
	return report, nil
}

// summary is the verdict in one line.
func summary(r verdict.Report) string {
	if len(r.Findings) > 0 && r.Findings[0].Severity != verdict.Info {
		return r.Findings[0].Text
	}
	return cmp.Or(r.Speed.Text, string(r.Health))
}

func findings(r verdict.Report) []finding {
	out := []finding{}
	for _, f := range r.Findings {
		one := finding{Level: string(f.Severity), Text: f.Text, Try: []string{}}
		for _, t := range f.Try {
			one.Try = append(one.Try, t.String())
		}
		if f.Advice != "" {
			one.Try = append(one.Try, f.Advice)
		}
		if len(f.Steps) > 0 {
			one.Step = f.Steps[0]
		}
		out = append(out, one)
	}
	limited := func(f verdict.Finding) bool { return strings.Contains(f.Text, r.Speed.Text) }
	if r.Speed.Text != "" && !slices.ContainsFunc(r.Findings, limited) {
		out = append(out, finding{Level: "info", Text: r.Speed.Text, Try: []string{}})
	}
	return out
}

// judgeNext judges the newest run that lacks a verdict of its files, and sends its row. It reports whether there was one.
func (s *Server) judgeNext() bool {
	type candidate struct {
		e       *entry
		started float64
		due     bool
	}
	var all []candidate
	for _, e := range s.store.all() {
		e.mu.Lock()
		all = append(all, candidate{e, e.row.Started, e.known && !e.failed && (e.row.Health == "" || e.row.State == rundir.Running && time.Since(e.tried) > judgeEvery)})
		e.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(b.started, a.started) })
	for _, c := range all[:min(len(all), judgeRuns)] {
		if !c.due {
			continue
		}
		_, err := c.e.judge(s.ctx)
		c.e.mu.Lock()
		c.e.tried, c.e.failed = time.Now(), err != nil
		mine := c.e.row
		c.e.mu.Unlock()
		if err == nil {
			s.live.send(change{Runs: []row{mine}})
		}
		return true
	}
	return false
}

// judgeRows judges runs in the background while there are clients.
func (s *Server) judgeRows() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		for s.live.count() > 0 && s.ctx.Err() == nil && s.judgeNext() {
		}
	}
}
