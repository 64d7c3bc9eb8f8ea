package trackers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trireme/internal/clustertest"
	"trireme/monitor"
)

// TestPromtool checks both text formats with Prometheus's own linter.
func TestPromtool(t *testing.T) {
	promtool := clustertest.Program(t, "promtool", "prometheus")
	t.Parallel()
	m := newMetrics(Run{ID: "a\"b", Name: "x\\\ny"})
	m.Record(wholeRecord(1))
	m.Evaluate(monitor.Evaluation{Step: 1, Time: time.Now()})
	cmd := exec.Command(promtool, "check", "metrics") // reads the older format only
	cmd.Stdin = bytes.NewReader(expose(m.read(), false))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// wholeRecord is a record that has every metric.
func wholeRecord(step int64) monitor.Record {
	r := testRecord(step)
	one := 1.0
	r.PeakFLOPS, r.FLOPSPerSecond, r.Resident.Now = 1, 1, 1
	r.Host = &monitor.Host{CPU: &one, Load: &one, DiskRead: &one, NetReceive: &one}
	r.Device = &monitor.Device{Utilization: 1, Power: 1}
	return r
}

// TestPrometheusServer lets Prometheus read a run and checks its API: the values, and that each query of the dashboard
// has a result.
func TestPrometheusServer(t *testing.T) {
	program := clustertest.Program(t, "prometheus", "prometheus")
	t.Parallel()
	n := &notes{}
	p, err := listen("127.0.0.1:0", testRun(t, n))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	target := strings.TrimSuffix(strings.TrimPrefix(n.text(), "prometheus: metrics at http://"), "/metrics")
	dir, at := t.TempDir(), "127.0.0.1:"+freePort(t)
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs: [{job_name: trireme, static_configs: [{targets: [%q]}]}]\n", target)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Record(wholeRecord(1))
	p.Evaluate(monitor.Evaluation{Step: 1, Time: time.Now(), Loss: 2})
	serve(t, "http://"+at+"/-/ready", os.Environ(), program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	query := func(expr string) []string {
		t.Helper()
		resp, err := http.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(expr))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var reply struct {
			Status, Error string
			Data          struct{ Result []struct{ Value [2]any } }
		}
		if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || reply.Status != "success" {
			t.Fatalf("%s: %v %s", expr, err, reply.Error)
		}
		var values []string
		for _, r := range reply.Data.Result {
			values = append(values, r.Value[1].(string))
		}
		return values
	}
	step := int64(1)
	for deadline := time.Now().Add(time.Minute); len(query("rate(trireme_steps_total[1m]) > 0")) == 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no rate of trireme_steps_total; up is %v, trireme_steps_total is %v", query("up"), query("trireme_steps_total"))
		}
		step++
		p.Record(wholeRecord(step))
	}
	p.Record(wholeRecord(1000))
	for deadline := time.Now().Add(time.Minute); fmt.Sprint(query("trireme_step")) != "[1000]"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("trireme_step is %v", query("trireme_step"))
		}
	}
	steps := float64(step + 1)
	for expr, want := range map[string]string{
		"trireme_steps_total": fmt.Sprint(steps), "trireme_step_duration_seconds_sum": fmt.Sprint(steps / 4), "trireme_loss": "0.004", "trireme_evaluation_loss": "2", "trireme_gradient_norm": "+Inf",
		`trireme_step_duration_seconds_bucket{le="0.25"}`: fmt.Sprint(steps), `trireme_collectives_total{op="all_gather",axis="shard"}`: fmt.Sprint(3 * steps),
		`trireme_run_info{run="abc123",name="run-1"}`: "1", `trireme_model_value{name="aux\\x1b\n\"x\\"}`: "1",
	} {
		if got := query(expr); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, not %s", expr, got, want)
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(grafana, &board); err != nil {
		t.Fatal(err)
	}
	for _, panel := range board.Panels {
		for _, q := range panel.Targets {
			expr := strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m").Replace(q.Expr)
			if got := query(expr); len(got) == 0 {
				t.Errorf("%s: %s has no result", panel.Title, expr)
			}
		}
	}
}
