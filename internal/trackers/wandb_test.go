package trackers

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/monitor"
)

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
