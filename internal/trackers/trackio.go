package trackers

import (
	"context"
	"fmt"

	"trireme/monitor"
)

// trackio sends to a trackio server over its HTTP API 1. A record has an ID of its own, so that a repeated
// one counts once, and a resumed run continues its own.
type trackio struct {
	*endpoint
	run        Run
	project    string
	configured bool // the server has the configuration
}

func newTrackio(c monitor.Trackio, run Run) *trackio {
	t := &trackio{endpoint: newEndpoint(c.URL), run: run, project: or(c.Project)}
	if token := run.variable("TRACKIO_WRITE_TOKEN"); token != "" {
		t.header.Set("X-Trackio-Write-Token", token)
	}
	return t
}

type trackioEntry struct {
	Project string         `json:"project"`
	Run     string         `json:"run"`
	RunID   string         `json:"run_id"`
	Metrics map[string]any `json:"metrics"`
	Step    int64          `json:"step"`
	Config  map[string]any `json:"config,omitempty"`
	LogID   string         `json:"log_id"`
}

func (t *trackio) send(ctx context.Context, events []event) error {
	var logs []trackioEntry
	for _, e := range events {
		all, step := e.scalars()
		kind := "step"
		if e.eval != nil {
			kind = "eval"
		}
		metrics := map[string]any{}
		for _, v := range all {
			metrics[v.Tag] = number(v.Value)
		}
		if e.histograms != nil {
			kind, step = "histograms", e.histograms.Step
			histogramValues(*e.histograms, "trackio.histogram", metrics)
		}
		if len(metrics) == 0 {
			continue
		}
		logs = append(logs, trackioEntry{
			Project: t.project, Run: t.run.Name, RunID: t.run.ID, Metrics: metrics, Step: step,
			LogID: fmt.Sprintf("%s-%s-%d-%d", t.run.ID, kind, step, e.at.UnixNano()),
		})
	}
	if len(logs) == 0 {
		return nil
	}
	if !t.configured {
		logs[0].Config = tree(t.run.Params)
	}
	reply := struct {
		Error any `json:"error"`
	}{}
	if err := t.json(ctx, "/api/bulk_log", map[string]any{"args": []any{}, "kwargs": map[string]any{"logs": logs, "hf_token": nil}}, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return rejection{fmt.Errorf("%s: %.200s", t.base, fmt.Sprint(reply.Error))}
	}
	t.configured = true
	return nil
}

// finish does nothing: trackio has no end of a run.
func (t *trackio) finish(context.Context, End) error { return nil }

// histogramValues adds histograms as W&B and trackio have them: counts of values between edges.
func histogramValues(h monitor.Histograms, kind string, into map[string]any) {
	for prefix, all := range map[string][]monitor.Histogram{"weights/": h.Weights, "gradients/": h.Gradients} {
		for _, one := range all {
			lo, hi := one.Used()
			if lo == hi {
				continue
			}
			var edges []float64
			for i := lo; i < hi; i++ {
				from, to := one.Range(i)
				if i == lo {
					edges = append(edges, from)
				}
				edges = append(edges, to)
			}
			into[prefix+monitor.EscapeControl(one.Name)] = map[string]any{"_type": kind, "values": one.Counts[lo:hi], "bins": edges}
		}
	}
}
