package trackers

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"trireme/monitor"
)

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
