//go:build linux

package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"trireme/internal/netns"
)

// TestCutLink cuts the link between two hosts during a run: the ranks of both know within a second and name the rank
// on the other host, and rank 0's directory has the state of the rank that it cannot reach.
func TestCutLink(t *testing.T) {
	hosts := netns.New(t, 2)
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
	var errs [2]*output
	var ended [2]chan struct{}
	var cmds [2]*exec.Cmd
	for r := range 2 {
		c := hosts.Hosts[r].Command(context.Background(), exe, "train", "--config", "run.yaml", "--output_dir", fmt.Sprintf("out%d", r), "--set", "training.global_batch_size=12")
		errs[r], ended[r], cmds[r] = &output{}, make(chan struct{}), c
		c.Dir, c.Stderr, c.WaitDelay = dir, errs[r], 5*time.Second
		c.Env = append(os.Environ(), "HOME="+dir, fmt.Sprintf("TMPDIR=%s", t.TempDir()), "HF_HUB_OFFLINE=1", "TRIREME_JOB_SECRET=sixteen bytes or more",
			fmt.Sprintf("RANK=%d", r), "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", fmt.Sprintf("GROUP_RANK=%d", r), "GROUP_WORLD_SIZE=2", "MASTER_ADDR="+hosts.Hosts[0].Addr, "MASTER_PORT=29500")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			c.Wait()
			close(ended[r])
		}()
		defer func() {
			c.Process.Signal(syscall.SIGKILL)
			<-ended[r]
		}()
	}
	records := filepath.Join(dir, "out0", "metrics.jsonl")
	for end := time.Now().Add(time.Minute); countLines(records) < 20; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the run does not start:\n%s\n%s", errs[0], errs[1])
		}
	}
	time.Sleep(1500 * time.Millisecond) // states are kept once a second
	if err := hosts.Hosts[1].Cut(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for r := range 2 {
		select {
		case <-ended[r]:
		case <-time.After(20 * time.Second):
			t.Fatalf("rank %d did not end:\n%s", r, errs[r])
		}
		t.Logf("rank %d ended %.1f s after the cut", r, time.Since(began).Seconds())
		if code := cmds[r].ProcessState.ExitCode(); code != 76 {
			t.Errorf("rank %d: code %d", r, code)
		}
		want := fmt.Sprintf(`rank %d \(pid \d+ on node%d\) sent no heartbeat for 0.8 s`, 1-r, 1-r)
		if r == 0 {
			want += `.*; last state: it (waited in|was computing|was waiting|was in data\.Next).*` + collectivePattern
		}
		if text := errs[r].String(); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("rank %d does not match %s:\n%s", r, want, text)
		}
	}
	doctor := exec.Command(exe, "doctor", "job", "out0")
	doctor.Dir, doctor.Env = dir, append(os.Environ(), "HOME="+dir)
	out, _ := doctor.Output()
	if !regexp.MustCompile(`(?m)^1 +node1 +\d+ +(running|silent|dead) `).Match(out) {
		t.Errorf("doctor job has no state of rank 1:\n%s", out)
	}
	t.Logf("%s", out)
}
