//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trireme/internal/netns"
	"trireme/monitor"
)

// TestSlowLink trains over a link of 100 Mbit/s: records say that transfers, not a rank or the data, take the time.
func TestSlowLink(t *testing.T) {
	hosts := netns.New(t, 2)
	if err := hosts.Hosts[1].Limit(100e6); err != nil {
		t.Fatal(err)
	}
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rows := strings.Repeat("{\"input_ids\": [1, 2, 3, 13, 17, 21, 25, 29]}\n", 60)
	for name, text := range map[string]string{"config.json": stoppedModel, "run.yaml": stoppedRun, "rows.jsonl": rows, "eval.jsonl": rows} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var cmds [2]*exec.Cmd
	var errs [2]*output
	for r := range 2 {
		c := hosts.Hosts[r].Command(ctx, exe, "train", "--config", "run.yaml", "--output_dir", "out", "--max_steps", "6", "--set", "parallel.strategy=fsdp", "--set", "data.eval_path=")
		errs[r], cmds[r] = &output{}, c
		c.Dir, c.Stderr, c.WaitDelay = dir, errs[r], 5*time.Second
		c.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+t.TempDir(), "HF_HUB_OFFLINE=1", "TRIREME_JOB_SECRET=sixteen bytes or more",
			fmt.Sprintf("RANK=%d", r), "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", fmt.Sprintf("GROUP_RANK=%d", r), "GROUP_WORLD_SIZE=2", "MASTER_ADDR="+hosts.Hosts[0].Addr, "MASTER_PORT=29500")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for r, c := range cmds {
		if err := c.Wait(); err != nil {
			t.Fatalf("rank %d: %v\n%s", r, err, errs[r])
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "out", "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range bytes.Lines(b) {
		r, _, err := monitor.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if r == nil || r.Step < 3 {
			continue
		}
		seen++
		exposed := 0.0
		for _, op := range r.CommOps {
			exposed += op.Exposed
		}
		if s := r.Split; s.Comm < r.StepSeconds/2 || s.Wait > s.Comm/2 || exposed < s.Comm/2 {
			t.Errorf("step %d of %.3f s: split %+v, collectives %+v", r.Step, r.StepSeconds, *s, r.CommOps)
		}
		if own := r.Ranks.Own; max(own[0], own[1]) > r.StepSeconds/2 || min(r.Ranks.Comm[0], r.Ranks.Comm[1]) < r.StepSeconds/3 {
			t.Errorf("step %d of %.3f s: ranks %+v", r.Step, r.StepSeconds, *r.Ranks)
		}
	}
	if seen < 3 {
		t.Errorf("%d records", seen)
	}
}
