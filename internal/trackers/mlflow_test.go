package trackers

import (
	"fmt"
	"path/filepath"
	"testing"

	"trireme/monitor"
)

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
