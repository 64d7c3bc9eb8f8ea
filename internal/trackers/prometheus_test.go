package trackers

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/monitor"
)

func TestPrometheusPackage(t *testing.T) {
	py := python(t, "prometheus_client")
	t.Parallel()
	run := testRun(t, nil)
	run.Name = "a\"b\\c\nd"
	m := newMetrics(run)
	for step := range int64(3) {
		m.Record(testRecord(step + 1))
	}
	m.Evaluate(monitor.Evaluation{Step: 3, Loss: math.NaN()})
	paths := []string{filepath.Join(run.Dir, "open"), filepath.Join(run.Dir, "old")}
	os.WriteFile(paths[0], expose(m.read(), true), 0o644)
	os.WriteFile(paths[1], expose(m.read(), false), 0o644)
	var got [][]any
	script(t, &got, environment(t), py, "read_openmetrics.py", paths...)
	values := map[string]any{}
	for _, s := range got {
		labels, _ := json.Marshal(s[1])
		values[s[0].(string)+string(labels)] = s[2]
	}
	for key, want := range map[string]string{
		`trireme_tokens_total{}`: "192.0", `trireme_step_duration_seconds_count{}`: "3.0", `trireme_evaluation_loss{}`: "nan",
		`trireme_run_info{"name":"a\"b\\c\nd","run":"abc123"}`:                                "1.0",
		`trireme_collectives_total{"axis":"shard","op":"all_gather"}`:                         "9.0",
		`trireme_collective_size_bytes_total{"axis":"shard","op":"all_gather"}`:               "9437184.0",
		`trireme_collective_seconds_total{"axis":"shard","exposed":"true","op":"all_gather"}`: "0.15000000000000002",
		`trireme_model_value{"name":"aux\\x1b\n\"x\\"}`:                                       "1.0",
	} {
		if v, _ := values[key].(string); strings.TrimSuffix(v, ".0") != strings.TrimSuffix(want, ".0") {
			t.Errorf("%s is %v, not %s", key, values[key], want)
		}
	}
}

// TestExposition checks the escapes and both formats.
func TestExposition(t *testing.T) {
	m := newMetrics(Run{ID: "a\"b", Name: "x\\\ny"})
	m.Record(testRecord(1))
	open, old := string(expose(m.read(), true)), string(expose(m.read(), false))
	for _, want := range []string{
		`trireme_run_info{run="a\"b",name="x\\\ny"} 1`, "# TYPE trireme_tokens counter", "trireme_tokens_total 64\n", "trireme_gradient_norm +Inf\n",
		`trireme_step_duration_seconds_bucket{le="0.25"} 1`, `trireme_step_duration_seconds_bucket{le="0.1"} 0`, "trireme_step_duration_seconds_sum 0.25\n",
		`trireme_collective_seconds_total{op="all_gather",axis="shard",exposed="true"} 0.05`, `trireme_memory_bytes{category="parameters"} 1.048576e+06`,
		`trireme_rank_time_seconds{rank="1",part="own"} 0.25`, `trireme_step_time_seconds_total{part="forward"} 0.1`,
	} {
		if !strings.Contains(open, want) {
			t.Errorf("no %q in\n%s", want, open)
		}
	}
	if !strings.HasSuffix(open, "# EOF\n") || strings.Contains(old, "# EOF") || !strings.Contains(old, "# TYPE trireme_tokens_total counter") {
		t.Error("the formats differ in their end and in the headings of counters")
	}
}

// TestPrometheusAddress checks that an address without a host is loopback, and that one in use is noted only.
func TestPrometheusAddress(t *testing.T) {
	n := &notes{}
	p, err := listen(":0", testRun(t, n))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	at := strings.TrimPrefix(n.text(), "prometheus: metrics at ")
	if !strings.HasPrefix(at, "http://127.0.0.1:") {
		t.Fatal(at)
	}
	resp, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	c := monitor.Default()
	c.Prometheus.Addr = strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/metrics")
	s := Open(c, testRun(t, n))
	if s.Close(); !strings.Contains(n.text(), "address already in use; training continues without it") {
		t.Error(n.text())
	}
}
