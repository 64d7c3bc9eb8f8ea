package trackers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"trireme/monitor"
)

// mlflow sends to an MLflow server over its REST API 2.0. A resumed run continues the run at the server
// that has its ID as tag.
type mlflow struct {
	*endpoint
	run        Run
	experiment string
	id         string // of the run at the server; "" before it is found or created
	logged     bool   // parameters are there
}

// Limits of a batch at the server, and of a key and a value.
const (
	mlflowMetrics = 900
	mlflowParams  = 100
	mlflowKey     = 250
	mlflowValue   = 6000
)

// runTag is the tag with the run's ID.
const runTag = "trireme.run"

func newMLflow(c monitor.MLflow, run Run) *mlflow {
	m := &mlflow{endpoint: newEndpoint(c.URL), run: run, experiment: or(c.Experiment)}
	token, user := run.variable("MLFLOW_TRACKING_TOKEN"), run.variable("MLFLOW_TRACKING_USERNAME")
	switch {
	case user != "":
		both := user + ":" + run.variable("MLFLOW_TRACKING_PASSWORD")
		m.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(both)))
	case token != "":
		m.header.Set("Authorization", "Bearer "+token)
	}
	return m
}

const mlflowAPI = "/api/2.0/mlflow/"

type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type mlflowMetric struct {
	Key   string `json:"key"`
	Value number `json:"value"`
	Time  int64  `json:"timestamp"` // ms
	Step  int64  `json:"step"`
}

func (m *mlflow) send(ctx context.Context, events []event) error {
	if err := m.start(ctx); err != nil {
		return err
	}
	var metrics []mlflowMetric
	flush := func() error {
		if len(metrics) == 0 {
			return nil
		}
		err := m.json(ctx, mlflowAPI+"runs/log-batch", map[string]any{"run_id": m.id, "metrics": metrics}, nil)
		metrics = metrics[:0]
		return err
	}
	for _, e := range events {
		all, step := e.scalars()
		if len(metrics)+len(all) > mlflowMetrics {
			if err := flush(); err != nil {
				return err
			}
		}
		for _, v := range all {
			metrics = append(metrics, mlflowMetric{mlflowName(v.Tag), number(v.Value), e.at.UnixMilli(), step})
		}
	}
	return flush()
}

// mlflowName replaces the characters that a name cannot have.
func mlflowName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-. :/", r)) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), mlflowKey)]
}

// start finds or creates the run.
func (m *mlflow) start(ctx context.Context) error {
	if m.id == "" {
		experiment, err := m.findExperiment(ctx)
		if err != nil {
			return err
		}
		if m.run.Resumed > 0 {
			if err := m.find(ctx, experiment); err != nil {
				return err
			}
		}
		if m.id == "" {
			if err := m.create(ctx, experiment); err != nil {
				return err
			}
		}
	}
	if m.logged {
		return nil
	}
	var params []pair
	for i, p := range m.run.Params {
		value := fmt.Sprint(p.Value)
		params = append(params, pair{mlflowName(p.Key), strings.ToValidUTF8(value[:min(len(value), mlflowValue)], "")})
		if len(params) < mlflowParams && i+1 < len(m.run.Params) {
			continue
		}
		// Parameters of a run never change at the server: a resumed run may have others, which it refuses.
		if err := m.json(ctx, mlflowAPI+"runs/log-batch", map[string]any{"run_id": m.id, "params": params}, nil); err != nil && !(m.run.Resumed > 0 && errors.As(err, &rejection{})) {
			return err
		}
		params = params[:0]
	}
	m.logged = true
	return nil
}

func (m *mlflow) findExperiment(ctx context.Context) (id string, err error) {
	reply := struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
		ID string `json:"experiment_id"` // of a new one
	}{}
	err = m.get(ctx, mlflowAPI+"experiments/get-by-name?experiment_name="+url.QueryEscape(m.experiment), &reply)
	if status := (*statusError)(nil); errors.As(err, &status) && status.code == http.StatusNotFound && strings.Contains(status.text, "RESOURCE_DOES_NOT_EXIST") {
		err = m.json(ctx, mlflowAPI+"experiments/create", map[string]any{"name": m.experiment}, &reply)
		return reply.ID, err
	}
	return reply.Experiment.ID, err
}

// find looks for the run that this one continues.
func (m *mlflow) find(ctx context.Context, experiment string) error {
	reply := struct {
		Runs []struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"runs"`
	}{}
	filter := fmt.Sprintf("tags.`%s` = '%s'", runTag, m.run.ID) // an ID has letters and digits
	if err := m.json(ctx, mlflowAPI+"runs/search", map[string]any{"experiment_ids": []string{experiment}, "filter": filter, "max_results": 1}, &reply); err != nil {
		return err
	}
	if len(reply.Runs) == 0 {
		return nil
	}
	id := reply.Runs[0].Info.ID
	err := m.json(ctx, mlflowAPI+"runs/update", map[string]any{"run_id": id, "status": "RUNNING"}, nil)
	if err == nil {
		m.id = id
	}
	return err
}

func (m *mlflow) create(ctx context.Context, experiment string) error {
	reply := struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"run"`
	}{}
	err := m.json(ctx, mlflowAPI+"runs/create", map[string]any{
		"experiment_id": experiment, "run_name": m.run.Name, "start_time": m.run.Started.UnixMilli(),
		"tags": []pair{{runTag, m.run.ID}, {"mlflow.source.name", "trireme"}, {"mlflow.source.type", "JOB"}},
	}, &reply)
	if err == nil && reply.Run.Info.ID == "" {
		return rejection{fmt.Errorf("%s: the reply to runs/create has no run_id", m.base)}
	}
	m.id = reply.Run.Info.ID
	return err
}

func (m *mlflow) finish(ctx context.Context, end End) error {
	if m.id == "" {
		return nil
	}
	status := "FAILED"
	switch end.Code {
	case 0:
		status = "FINISHED"
	case stopped:
		status = "KILLED"
	}
	return m.json(ctx, mlflowAPI+"runs/update", map[string]any{"run_id": m.id, "status": status, "end_time": time.Now().UnixMilli()}, nil)
}
