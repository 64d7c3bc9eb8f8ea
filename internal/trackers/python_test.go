package trackers

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/monitor"
)

// pythonVar names a Python with the packages whose readers and servers the tests use.
const pythonVar = "TRACKERS_PYTHON"

// patient are limits for real servers on a busy machine.
var patient = limits{events: 4096, gather: 100 * time.Millisecond, request: time.Minute, retry: time.Second, flush: time.Minute}

// python returns that Python if it has a package, or skips the test.
func python(t *testing.T, pkg string) string {
	t.Helper()
	path := os.Getenv(pythonVar)
	if path == "" {
		t.Skipf("SKIPPED: %s is not set: a Python with %s (pip install tensorboard wandb mlflow trackio prometheus_client opentelemetry-proto)", pythonVar, pkg)
	}
	if out, err := exec.Command(path, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)", pkg).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %s has no package %s: %v %s", path, pkg, err, out)
	}
	return path
}

// environment is for programs that would write to the home directory or to the network.
func environment(t *testing.T, more ...string) []string {
	return append(append(os.Environ(), "HOME="+t.TempDir(), "MLFLOW_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=1", "WANDB_ERROR_REPORTING=false", "HF_HUB_OFFLINE=1", "PYTHONDONTWRITEBYTECODE=1"), more...)
}

// script runs a script of testdata and decodes its last line.
func script(t *testing.T, out any, env []string, python, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(python, append([]string{filepath.Join("testdata", name)}, args...)...)
	cmd.Env = env
	var errs strings.Builder
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, b, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), out); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, b)
	}
}

// tags are the tags of feed's records.
func tags() (all []string) {
	for _, v := range testRecord(1).Scalars() {
		all = append(all, v.Tag)
	}
	return append(all, "eval/loss", "eval/perplexity")
}

func TestTensorBoardPackage(t *testing.T) {
	py := python(t, "tensorboard")
	t.Parallel()
	run := testRun(t, nil)
	tb, err := monitor.OpenTensorBoard(run.Dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	tb.Text(run.Started, 0, "config", "a: 1\n# <script>")
	if err := tb.Params(run.Started, run.Name, run.Params); err != nil {
		t.Fatal(err)
	}
	feed(tb)
	if err := tb.Close(); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Scalars    map[string][][2]any
		Histograms map[string]struct {
			Step           int64
			Num            float64
			Limits, Counts []float64
		}
		Texts   map[string][][2]any
		HParams map[string]any
		Metrics []string
		Status  int
	}
	script(t, &got, environment(t), py, "read_tensorboard.py", run.Dir)
	for _, tag := range tags() {
		want := 3
		if strings.HasPrefix(tag, "eval/") {
			want = 1
		}
		if len(got.Scalars[tag]) != want {
			t.Errorf("%s: %v", tag, got.Scalars[tag])
		}
	}
	if v := fmt.Sprint(got.Scalars["train/loss"], got.Scalars["train/grad_norm"][0], got.Scalars["eval/loss"]); v != "[[1 4.0] [2 2.0] [3 1.3333333730697632]] [1 inf] [[3 nan]]" {
		t.Error(v)
	}
	h := got.Histograms["weights/layers.0.w"]
	if h.Step != 3 || h.Num != 6 || len(got.Histograms) != 2 {
		t.Errorf("%+v", got.Histograms)
	}
	total := 0.0
	for i, n := range h.Counts {
		if total += n; n > 0 && h.Limits[i] == 1.5 && n != 2 { // 1 and 1.2
			t.Errorf("the bucket up to 1.5 has %v", n)
		}
	}
	if total != 6 || h.Limits[0] != -4 || h.Limits[len(h.Limits)-1] != 1.5 {
		t.Errorf("%v %v", h.Limits, h.Counts)
	}
	if v := fmt.Sprintf("%q %q", got.Texts["config/text_summary"], got.Texts["notes/text_summary"]); v != `[["0" "    a: 1\n    # <script>"]] [["3" "    saved \\x1b[31m checkpoint"]]` && !strings.Contains(v, "checkpoint") {
		t.Error(v)
	}
	want := map[string]any{"name": "run", "training.learning_rate": 0.001, "training.betas": "[0.9 0.95]", "model.path": `a\x1b[31m`, "model.on": true, "empty": ""}
	if !reflect.DeepEqual(got.HParams, want) || !slices.Equal(got.Metrics, []string{"train/loss", "eval/loss"}) || got.Status != 1 {
		t.Errorf("%v %v %v", got.HParams, got.Metrics, got.Status)
	}
}

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

func TestOTLPPackage(t *testing.T) {
	py := python(t, "opentelemetry.proto")
	t.Parallel()
	var mu sync.Mutex
	bodies := map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies[r.URL.Path] = b
		if r.Header.Get("X-Key") != "a b" || r.Header.Get("Content-Type") != protobufType {
			t.Errorf("%v", r.Header)
		}
	}))
	defer server.Close()
	n := &notes{}
	run := testRun(t, n)
	run.Lookup = func(name string) (string, bool) {
		return map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b"}[name], true
	}
	o := newOTLP(monitor.OTLP{URL: server.URL + "/", Traces: true}, run, quick)
	feed(o)
	o.Close()
	var paths []string
	for _, name := range []string{"/v1/metrics", "/v1/traces"} {
		paths = append(paths, filepath.Join(run.Dir, filepath.Base(name)))
		os.WriteFile(paths[len(paths)-1], bodies[name], 0o644)
	}
	var got [2]map[string]any
	script(t, &got, environment(t), py, "read_otlp.py", paths...)
	text, _ := json.Marshal(got)
	for _, want := range []string{
		`"name":"trireme.step.duration"`, `"unit":"s"`, `"isMonotonic":true`, `"aggregationTemporality":"AGGREGATION_TEMPORALITY_CUMULATIVE"`, `"asDouble":192`, `"count":"3"`, `"sum":0.75`,
		`{"key":"service.instance.id","value":{"stringValue":"abc123"}}`, `{"key":"op","value":{"stringValue":"all_gather"}}`, `"name":"step"`, `"kind":"SPAN_KIND_INTERNAL"`,
		`{"key":"trireme.step","value":{"intValue":"3"}}`, `{"key":"time.split.forward","value":{"doubleValue":0.1}}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if n.text() != "" {
		t.Error(n.text())
	}
}

func TestWandBPackage(t *testing.T) {
	py := python(t, "wandb")
	t.Parallel()
	n := &notes{}
	run := testRun(t, n)
	os.WriteFile(filepath.Join(run.Dir, "config.yaml"), []byte("a: 1\n"), 0o644)
	run.Params = append(run.Params, monitor.Param{Key: "long", Value: strings.Repeat("x", 100_000)}) // over several blocks
	run.End = func() End { return End{Code: 75} }
	q := newQueue("wandb", newWandB(monitor.WandB{Project: "p", Tags: []string{"t"}, Group: "g"}, run), run, patient)
	feed(q)
	for step := range int64(500) { // blocks end at every offset of a record
		q.Record(testRecord(step + 4))
	}
	q.Close()
	files, _ := filepath.Glob(filepath.Join(run.Dir, "wandb", "offline-run-*-abc123", "run-abc123.wandb"))
	if len(files) != 1 || n.text() != "" {
		t.Fatal(files, n.text())
	}
	inspect := func(args ...string) []byte {
		cmd := exec.Command(py, append([]string{"-m", "wandb", "leet", "inspect"}, append(args, filepath.Dir(files[0]))...)...)
		cmd.Env = environment(t)
		b, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		return b
	}
	var steps []float64
	kinds := map[string]int{}
	for line := range strings.Lines(string(inspect("--json"))) {
		var r struct {
			Num     int
			Type    string
			History struct{ Item map[string]any }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if kinds[r.Type]++; r.Type == "history" {
			steps = append(steps, r.History.Item["_step"].(float64))
			if step := r.History.Item["_step"]; step == 3.0 && (r.History.Item["eval/perplexity"] == nil || r.History.Item["weights/layers.0.w"] == nil) {
				t.Errorf("%v", r.History.Item)
			}
		}
	}
	if len(steps) != 503 || !slices.IsSorted(steps) || kinds["header"] != 1 || kinds["run"] != 1 || kinds["exit"] != 1 || kinds["output_raw"] != 1 || kinds["files"] != 1 {
		t.Errorf("%d steps, %v", len(steps), kinds)
	}
	var summary struct {
		State   string
		Project string
		Summary map[string]any
		Config  map[string]any
	}
	text := inspect("--summary", "--json")
	if err := json.Unmarshal(text, &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Project != "p" || summary.Summary["train/loss"] != 4/503.0 || !strings.Contains(string(text), "0.001") || !strings.Contains(string(text), "75") {
		t.Errorf("%.2000s", text)
	}
}

// freePort returns a port that was free.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// serve starts a server that ends with the test, and waits until url replies.
func serve(t *testing.T, url string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Signal(os.Interrupt)
		ended := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		ended.Stop()
	})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if resp, err := http.Get(url); err == nil {
			if resp.Body.Close(); resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not reply", url)
		}
	}
}

func TestMLflowServer(t *testing.T) {
	py := python(t, "mlflow.server")
	t.Parallel()
	port, env := freePort(t), environment(t)
	url := "http://127.0.0.1:" + port
	serve(t, url+"/health", env, py, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1", "--backend-store-uri", "sqlite:///"+filepath.Join(t.TempDir(), "ml.db"))
	n := &notes{}
	run := testRun(t, n)
	for i := range 150 { // over a batch
		run.Params = append(run.Params, monitor.Param{Key: fmt.Sprintf("p.%d", i), Value: float64(i)})
	}
	c := monitor.MLflow{URL: url, Experiment: "an experiment/&'x"}
	run.End = func() End { return End{Code: stopped} }
	q := newQueue("mlflow", newMLflow(c, run), run, patient)
	feed(q)
	q.Close()
	run.Resumed, run.End = 3, nil
	run.Params[1].Value = 0.002
	q = newQueue("mlflow", newMLflow(c, run), run, patient)
	for step := range int64(200) {
		q.Record(testRecord(step + 4))
	}
	q.Close()
	if n.text() != "" {
		t.Error(n.text())
	}
	var got []struct {
		Name, Status string
		Tags, Params map[string]string
		Metrics      map[string][][2]any
	}
	script(t, &got, env, py, "read_mlflow.py", url, c.Experiment)
	if len(got) != 1 || got[0].Name != "run-1" || got[0].Status != "FINISHED" || got[0].Tags[runTag] != "abc123" || got[0].Params["training.learning_rate"] != "0.001" || got[0].Params["p.149"] != "149" {
		t.Fatalf("%+v", got)
	}
	if loss := got[0].Metrics["train/loss"]; len(loss) != 203 || fmt.Sprint(loss[:2]) != "[[1 4.0] [2 2.0]]" {
		t.Errorf("%v", loss)
	}
	for _, tag := range tags() {
		if got[0].Metrics[mlflowName(tag)] == nil {
			t.Errorf("no %s", tag)
		}
	}
}

func TestTrackioServer(t *testing.T) {
	py := python(t, "trackio")
	t.Parallel()
	port := freePort(t)
	env := environment(t, "TRACKIO_DIR="+t.TempDir(), "TRACKIO_WRITE_TOKEN=sesame")
	url := "http://127.0.0.1:" + port
	serve(t, url+"/version", env, py, filepath.Join("testdata", "serve_trackio.py"), port)
	n := &notes{}
	run := testRun(t, n)
	denied := newQueue("trackio", newTrackio(monitor.Trackio{URL: url, Project: "p"}, run), run, patient)
	feed(denied)
	denied.Close()
	if !strings.Contains(n.text(), "write_token is required") {
		t.Errorf("without a token: %q", n.text())
	}
	n.all = nil
	run.Lookup = func(name string) (string, bool) {
		return map[string]string{"TRACKIO_WRITE_TOKEN": "sesame"}[name], true
	}
	q := newQueue("trackio", newTrackio(monitor.Trackio{URL: url, Project: "p"}, run), run, patient)
	feed(q)
	q.Close()
	if n.text() != "" {
		t.Error(n.text())
	}
	var got []struct {
		Name, ID string
		Config   map[string]any
		Logs     []map[string]any
	}
	script(t, &got, env, py, "read_trackio.py", "p")
	if len(got) != 1 || got[0].Name != "run-1" || got[0].ID != "abc123" || got[0].Config["training"].(map[string]any)["learning_rate"] != 0.001 {
		t.Fatalf("%+v", got)
	}
	text, _ := json.Marshal(got[0].Logs)
	if len(got[0].Logs) != 5 || !strings.Contains(string(text), `"eval/loss":"nan"`) || !strings.Contains(string(text), `"trackio.histogram"`) || !strings.Contains(string(text), `"train/grad_norm":"inf"`) {
		t.Errorf("%d: %s", len(got[0].Logs), text)
	}
}
