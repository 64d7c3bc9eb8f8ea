//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/clustertest"
	"trireme/internal/netns"
	"trireme/internal/tracefile"
	"trireme/internal/tracereport"
	"trireme/monitor"
)

// TestTraceOfTwoClocks traces a rank whose monotonic clock is 1000 s ahead of rank 0's: on another host, and beside
// rank 0 as in a container with a time namespace.
func TestTraceOfTwoClocks(t *testing.T) {
	ahead := []string{"unshare", "--time", "--monotonic", "1000", "--fork", "--kill-child"}
	net := netns.New(t, 2)
	if out, err := exec.Command(ahead[0], append(ahead[1:], "true")...).CombinedOutput(); err != nil {
		clustertest.Skip(t, fmt.Sprintf("no time namespaces here: %v: %s", err, bytes.TrimSpace(out)))
	}
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	for name, host := range map[string]int{"another host": 1, "the same host": 0} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rows := strings.Repeat("{\"input_ids\": [1, 2, 3, 13, 17, 21, 25, 29]}\n", 60)
			for name, text := range map[string]string{"config.json": stoppedModel, "run.yaml": stoppedRun, "rows.jsonl": rows, "eval.jsonl": rows} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			train := []string{exe, "train", "--config", "run.yaml", "--output_dir", "out", "--max_steps", "16", "--trace", "steps=6-15", "--set", "parallel.strategy=fsdp", "--set", "data.eval_path="}
			lines := [2][]string{train, slices.Concat(ahead, train)}
			var cmds [2]*exec.Cmd
			var errs [2]*output
			for r, at := range []int{0, host} {
				c := net.Hosts[at].Command(ctx, lines[r][0], lines[r][1:]...)
				errs[r], cmds[r] = &output{}, c
				c.Dir, c.Stderr, c.WaitDelay = dir, errs[r], 5*time.Second
				c.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "HF_HUB_OFFLINE=1", "TRIREME_JOB_SECRET=sixteen bytes or more", fmt.Sprintf("RANK=%d", r), "WORLD_SIZE=2",
					fmt.Sprintf("LOCAL_RANK=%d", r*(1-host)), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", 2-host), fmt.Sprintf("GROUP_RANK=%d", at), fmt.Sprintf("GROUP_WORLD_SIZE=%d", 1+host), "MASTER_ADDR="+net.Hosts[0].Addr, "MASTER_PORT=29500")
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
			}
			for r, c := range cmds {
				if err := c.Wait(); err != nil {
					t.Fatalf("rank %d: %v\n%s", r, err, errs[r])
				}
			}
			checkClocks(t, filepath.Join(dir, "out", "trace", "steps-6-15.perfetto-trace"))
			checkSkew(t, filepath.Join(dir, "out", "metrics.jsonl"))
		})
	}
}

// checkClocks checks the times of a trace of two ranks. The clock of rank 1 was 1000 s ahead.
func checkClocks(t *testing.T, path string) {
	t.Helper()
	tr, err := tracefile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Ranks) != 2 {
		t.Fatalf("the trace has %d ranks", len(tr.Ranks))
	}
	r := tr.Ranks[1]
	if d := time.Duration(r.ClockOffset) + 1000*time.Second; d.Abs() > 10*time.Millisecond || r.ClockUncertainty <= 0 || r.ClockUncertainty > 1e7 {
		t.Errorf("rank 1: the clock's offset is %v, uncertain by %v", time.Duration(r.ClockOffset), time.Duration(r.ClockUncertainty))
	}
	// A rank may continue late after a collective, where others use the processor, so the median is checked.
	var apart []time.Duration
	all := tr.Collectives()
	for _, c := range all {
		a, b := c.Members[0], c.Members[1]
		apart = append(apart, time.Duration(tr.Ranks[a.Rank].Spans[a.Span].End-tr.Ranks[b.Rank].Spans[b.Span].End).Abs())
	}
	slices.Sort(apart)
	if len(apart) < 10*8 || apart[len(apart)/2] > 5*time.Millisecond {
		t.Errorf("%d collectives, half of them end %v apart or more", len(apart), apart[len(apart)/2])
	}
	t.Logf("%d collectives end %v apart, the latest %v; offset %v, uncertain by %v", len(apart), apart[len(apart)/2], apart[len(apart)-1], time.Duration(r.ClockOffset), time.Duration(r.ClockUncertainty))
	report, err := tracereport.New(tr)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, p := range report.Parts {
		if p.Detail == "" {
			sum += p.Seconds
		}
		if p.Without <= 0 || p.Without > report.Step*1.5 {
			t.Errorf("without %s %s a step of %g s takes %g s", p.Name, p.Detail, report.Step, p.Without)
		}
	}
	if report.Step <= 0 || report.Step > 10 || math.Abs(sum-report.Step) > report.Step/100 {
		t.Errorf("a step takes %g s, its parts %g s", report.Step, sum)
	}
}

// checkSkew checks that the times of ranks in records are lengths of time of their own clocks.
func checkSkew(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var skews []float64
	for line := range bytes.Lines(b) {
		r, _, err := monitor.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if r == nil || r.Ranks == nil || r.Step < 3 {
			continue
		}
		for k := range 2 {
			if own, comm := r.Ranks.Own[k], r.Ranks.Comm[k]; own <= 0 || comm < 0 || own+comm > 10 {
				t.Errorf("step %d, rank %d: %g s of its own, %g s of communication", r.Step, k, own, comm)
			}
		}
		skews = append(skews, r.Skew)
	}
	slices.Sort(skews)
	if len(skews) < 10 || skews[0] < 1 || skews[len(skews)/2] > 2 {
		t.Errorf("skews of %d records: %v", len(skews), skews)
	}
}
