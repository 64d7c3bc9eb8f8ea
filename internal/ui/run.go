package ui

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"

	"trireme/internal/runlog"
	"trireme/internal/verdict"
	"trireme/monitor"
)

type runsAnswer struct {
	Schema string `json:"schema"`
	Runs   []row  `json:"runs"`
}

// runs lists all runs.
func (s *Server) runs(*http.Request) (any, error) {
	all := s.store.all()
	out := runsAnswer{"trireme.ui.runs/1", make([]row, len(all))}
	var wait sync.WaitGroup
	work := make(chan int)
	for range 8 { // most of the time is the file system's
		wait.Go(func() {
			for i := range work {
				out.Runs[i], _ = all[i].refresh()
			}
		})
	}
	for i := range all {
		work <- i
	}
	close(work)
	wait.Wait()
	return out, nil
}

// maxEvents and maxSamples limit what the page of a run has; the newest are kept.
const (
	maxEvents  = 500
	maxSamples = 100
)

type runAnswer struct {
	Schema     string             `json:"schema"`
	Run        row                `json:"run"`
	Command    string             `json:"command"`
	ExitText   string             `json:"exit_text"`
	Last       map[string]float64 `json:"last"`   // values of the last step
	Health     string             `json:"health"` // healthy, doubtful, unhealthy, too short
	Findings   []finding          `json:"findings"`
	Shares     []verdict.Share    `json:"shares"` // of the time of a step
	Events     []event            `json:"events"`
	EventsLeft int                `json:"events_left"` // older ones that are left out
	Samples    []sample           `json:"samples"`
}

type event struct {
	Time float64 `json:"time"`
	Step int64   `json:"step"`
	Kind string  `json:"kind"`
	Text string  `json:"text"`
}

type sample struct {
	Step int64  `json:"step"`
	Text string `json:"text"`
}

// run returns what the page of one run shows.
func (s *Server) run(r *http.Request) (any, error) {
	e, err := s.store.one(r)
	if err != nil {
		return nil, err
	}
	run, err := e.records(r.Context())
	if err != nil {
		return nil, err
	}
	a := runAnswer{Schema: "trireme.ui.run/1", Last: map[string]float64{}, Events: []event{}, Samples: []sample{}, Findings: []finding{}, Shares: []verdict.Share{}}
	a.Run, _ = e.refresh()
	card := run.Card()
	a.Command = quoted(card.Command)
	if card.Ended != nil && card.Exit != nil {
		a.ExitText = fmt.Sprintf("exit code %d", *card.Exit)
	}
	if _, last, ok := run.Steps(); ok {
		at, ok, err := run.At(last)
		if err != nil {
			return nil, err
		}
		if ok {
			for name, v := range at.Values {
				if !math.IsNaN(v) {
					a.Last[name] = v
				}
			}
		}
	}
	events, err := run.Events()
	if err != nil {
		events = []monitor.Event{{Kind: monitor.EventNote, Text: "events.jsonl cannot be read: " + err.Error()}}
	}
	for _, one := range events {
		for _, text := range one.Samples {
			a.Samples = append(a.Samples, sample{one.Step, text})
		}
		if one.Text == "" && one.Exit != nil {
			one.Text = fmt.Sprintf("exit code %d", *one.Exit)
		}
		a.Events = append(a.Events, event{unix(one.Time), one.Step, string(one.Kind), one.Text})
	}
	a.EventsLeft = max(0, len(a.Events)-maxEvents)
	a.Events = a.Events[a.EventsLeft:]
	a.Samples = a.Samples[max(0, len(a.Samples)-maxSamples):]
	slices.Reverse(a.Samples)
	report, err := e.judge(r.Context())
	if err != nil {
		return nil, err
	}
	a.Health, a.Findings, a.Shares = string(report.Health), findings(report), append(a.Shares, report.Speed.Shares...)
	return a, nil
}

// quoted writes a command for a person to read.
func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w; w == "" || strings.ContainsAny(w, " \t\n'\"\\$`&|;<>*?(){}[]#!~") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

type compareAnswer struct {
	Schema string       `json:"schema"`
	Runs   []comparedTo `json:"runs"`
	Keys   []compareKey `json:"keys"`
}

type comparedTo struct {
	row
	BestEvalLoss *float64 `json:"best_eval_loss"`
}

type compareKey struct {
	Key     string    `json:"key"`
	Values  []*string `json:"values"` // of each run; null if it does not have the key
	Differs bool      `json:"differs"`
}

// compare returns the rows of runs, and the keys of their configurations.
func (s *Server) compare(r *http.Request) (any, error) {
	entries, err := s.store.many(r)
	if err != nil {
		return nil, err
	}
	a := compareAnswer{"trireme.ui.compare/1", []comparedTo{}, []compareKey{}}
	configs, keys := make([]map[string]string, len(entries)), map[string]bool{}
	for i, e := range entries {
		run, err := e.records(r.Context())
		if err != nil {
			return nil, err
		}
		_, _ = e.judge(r.Context()) // the row has the verdict, if there is one
		row, _ := e.refresh()
		a.Runs = append(a.Runs, comparedTo{row, finite(run.Summary("eval_loss").Min)})
		configs[i] = run.Config()
		for k := range configs[i] {
			keys[k] = true
		}
	}
	different := map[string]bool{}
	for _, d := range runlog.DiffConfig(configs...) {
		different[d.Key] = true
	}
	for _, k := range slices.SortedFunc(maps.Keys(keys), cmp.Compare[string]) {
		one := compareKey{Key: k, Differs: different[k]}
		for _, c := range configs {
			if v, ok := c[k]; ok {
				one.Values = append(one.Values, &v)
			} else {
				one.Values = append(one.Values, nil)
				one.Differs = len(entries) > 1
			}
		}
		a.Keys = append(a.Keys, one)
	}
	return a, nil
}
