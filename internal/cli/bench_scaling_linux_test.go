package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"trireme/internal/scaling"
)

// TestPlantedSlowRank stops rank 1 for half of the time while bench scaling runs: the lost efficiency is waiting for
// rank 1, not communication. Other programs may take more, so the other causes are not compared.
func TestPlantedSlowRank(t *testing.T) {
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, exe, "bench", "scaling", "--config", "examples/scaling/run.yaml", "--worlds", "1,2", "--strategies", "ddp", "--steps", "5", "--warmup", "1",
		"--rounds", "1", "--set", "training.micro_batch_size=8", "--set", "device.threads=1", "--output_dir", filepath.Join(dir, "out"), "--json")
	c.Dir = filepath.Join("..", "..")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 20 * time.Second
	marker := "TEST_RUN=" + dir
	c.Env = append(os.Environ(), marker, "XDG_CACHE_HOME="+dir, "HOME="+dir, "HF_HUB_OFFLINE=1")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	pulses := 0
	for running := true; running; {
		pid := processWith(marker, "RANK=1", "WORLD_SIZE=2")
		for pid != 0 && syscall.Kill(pid, syscall.SIGSTOP) == nil {
			time.Sleep(10 * time.Millisecond)
			if syscall.Kill(pid, syscall.SIGCONT) != nil {
				break
			}
			pulses++
			time.Sleep(10 * time.Millisecond)
		}
		select {
		case err = <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var r scaling.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	row := r.Rows[slices.IndexFunc(r.Rows, func(r scaling.Row) bool { return r.World == 2 })]
	l := row.Lost
	t.Logf("%d pulses, efficiency %.2f, lost %+v", pulses, row.Efficiency, l)
	if pulses < 10 {
		t.Fatalf("rank 1 was stopped %d times", pulses)
	}
	if row.SlowRank == nil || *row.SlowRank != 1 || l.Waiting < 10 || l.Waiting < 3*l.Communication {
		t.Errorf("the slow rank is %v, lost %+v: want rank 1 and waiting, not communication", row.SlowRank, l)
	}
}

// processWith returns a process with these entries in its environment, 0 if there is none.
func processWith(entries ...string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // cannot fail: the pattern is well formed
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // ended, or of another user
		}
		have := bytes.Split(b, []byte{0})
		missing := slices.ContainsFunc(entries, func(e string) bool {
			return !slices.ContainsFunc(have, func(h []byte) bool { return string(h) == e })
		})
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && !missing {
			return pid
		}
	}
	return 0
}
