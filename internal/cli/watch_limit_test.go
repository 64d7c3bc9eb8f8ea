package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trireme/monitor"
	"trireme/trace"
)

// The view names a slow rank, data reader, disk and link as the limit of a run.
func TestWatchNamesTheLimit(t *testing.T) {
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		plant      func(*monitor.Record)
	}{
		{"rank", "limit  rank 2", func(r *monitor.Record) {
			r.Split = &trace.Split{Forward: 0.3, Backward: 0.4, Wait: 0.3}
			r.Skew, r.SlowRank = 1.43, 2
			r.Ranks = &monitor.Ranks{Own: []float64{0.7, 0.7, 1, 0.7}, Data: make([]float64, 4), Comm: []float64{0.3, 0.3, 0, 0.3}, Save: make([]float64, 4)}
		}},
		{"data", "limit  data", func(r *monitor.Record) { r.Split = &trace.Split{Data: 0.4, Forward: 0.3, Backward: 0.3} }},
		{"disk", "limit  disk", func(r *monitor.Record) {
			r.Split = &trace.Split{Forward: 0.5, Backward: 0.5}
			r.SaveSeconds = 0.7
		}},
		{"link", "limit  communication: rank 0 waits for data of collectives 30% of the time, most for all_gather on axis shard", func(r *monitor.Record) {
			r.Split = &trace.Split{Forward: 0.3, Backward: 0.4, Comm: 0.3}
			r.CommSeconds, r.CommOps = 0.4, map[string]trace.CommOp{"all_gather/shard": {Count: 2, Bytes: 1 << 20, Seconds: 0.4, Exposed: 0.3}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			var b []byte
			for i := range int64(60) {
				r := monitor.Record{Step: i + 1, MaxSteps: 60, Time: time.Unix(1e9+i, 0), Loss: 3, GradNorm: 1, LR: 1e-3, Samples: 4, Tokens: 400, LabelTokens: 400, StepSeconds: 1, WorldSize: 4}
				c.plant(&r)
				b = append(r.AppendJSON(b), '\n')
			}
			if err := os.WriteFile(filepath.Join(dir, "metrics.jsonl"), b, 0o644); err != nil {
				t.Fatal(err)
			}
			watch := exec.Command(exe, "watch", "--once", dir)
			watch.Env = append(os.Environ(), "HOME="+dir, "LC_ALL=C.UTF-8", "COLUMNS=160")
			out, err := watch.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, no %q in\n%s", err, c.want, out)
			}
		})
	}
}
