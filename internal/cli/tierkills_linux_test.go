package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trireme/checkpoint"
	"trireme/internal/objectstore/objectstoretest"
	"trireme/monitor"
)

var (
	tierKills    = flag.Int("tierkills", 3, "kills of TestTierKills")
	tierKillSeed = flag.Uint64("tierkillseed", 1, "seed of TestTierKills")
)

// tierMode is a way to save checkpoints.
type tierMode struct {
	name   string
	config string // of checkpoint
	memory int    // steps between checkpoints in memory; 0: none
	disk   int    // and on disk
	late   int    // steps by which one on disk may be committed late
	beside int    // and one in memory
	last   bool   // there is a last tier, in an object store: LAST in config
}

var tierModes = []tierMode{
	{"sync", "{save_every_n_steps: 2}", 0, 2, 0, 0, false},
	{"async", "{save_every_n_steps: 2, async: true}", 0, 2, 2, 0, false},
	{"memory and disk", "{tiers: [{dir: memory, save_every_n_steps: 1}, {save_every_n_steps: 6}]}", 1, 6, 0, 0, false},
	{"memory and disk, async", "{async: true, tiers: [{dir: memory, save_every_n_steps: 3}, {save_every_n_steps: 6, keep_last_n: 2}]}", 3, 6, 6, 1, false},
	{"memory, disk and store", "{async: true, tiers: [{dir: memory, save_every_n_steps: 1}, {save_every_n_steps: 2, keep_last_n: 2}, {dir: LAST, save_every_n_steps: 4, keep_last_n: 2}]}", 1, 2, 2, 1, true},
}

// least is the step that a start has after a kill, when the record of step had been written.
func (m tierMode) least(step int, launcher bool) int {
	before := func(every int) int { return (step - 1) / every * every }
	if m.memory > 0 && !launcher {
		return max(0, step-1-m.beside) / m.memory * m.memory
	}
	return max(0, before(m.disk)-m.late)
}

// tierSteps is the length of the runs.
const tierSteps = 40

// tierJob is a run that is killed several times.
type tierJob struct {
	*killMatrix
	t     *testing.T
	out   string
	mode  tierMode
	want  map[int]string // digest of the state after each step
	cmd   *exec.Cmd
	text  bytes.Buffer // of all starts
	ended chan struct{}
	gone  int // step of the last tier when the disk was lost; the disk has later steps only
	tally *tierTally
}

// tierTally counts what the kills met.
type tierTally struct {
	mu                  sync.Mutex
	kills               map[string]int // by victim and mode
	late                int            // the run had ended
	lost                map[int]int    // kills by steps that were done again
	checked, unfinished int            // checkpoints with the digest of their step, and directories that are none
	fromStore           int            // starts without the disk, from the last tier
}

// TestTierKills kills a rank, the launcher, or all, at random moments of runs with checkpoints in all tiers. The job
// goes on, by itself or by the same command, after the newest save before the kill; each checkpoint that verifies has
// the state of its step in a run without kills; and the last state is that of this run. If all are killed in a run with a
// last tier, its disk is lost too: it goes on from there. -tierkills sets the number.
func TestTierKills(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	m := &killMatrix{exe: exe, dir: t.TempDir()}
	m.write(t)
	config := strings.ReplaceAll(`model: {config: config.json}
data: {path: rows.jsonl}
training: {micro_batch_size: 1, global_batch_size: 12, max_steps: STEPS, learning_rate: 0.001}
logging: {tensorboard: false}
parallel: {grace_seconds: 3, stop_seconds: 30, timeout_seconds: 60}
device: {threads: 1}
`, "STEPS", strconv.Itoa(tierSteps))
	if err := os.WriteFile(filepath.Join(m.dir, "tiers.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	objectstoretest.Start(t) // in the environment of all runs
	want := m.digests(t)
	tally := &tierTally{kills: map[string]int{}, lost: map[int]int{}}
	t.Run("runs", func(t *testing.T) {
		r := rand.New(rand.NewPCG(*tierKillSeed, 0))
		for i, left := 0, *tierKills; left > 0; i++ {
			n := min(left, 1+r.IntN(4))
			if *tierKills < 10 {
				n = 1
			}
			left -= n
			mode, seed := tierModes[(i+2)%len(tierModes)], r.Uint64()
			t.Run(fmt.Sprintf("%03d %s, %d kills", i, mode.name, n), func(t *testing.T) {
				t.Parallel()
				j := &tierJob{killMatrix: m, t: t, out: fmt.Sprintf("tier-%03d", i), mode: mode, want: want, tally: tally}
				j.run(n, i, rand.New(rand.NewPCG(seed, 0)))
			})
		}
	})
	t.Logf("seed %d: kills %v, %d after the end; kills by steps done again: %v; %d checkpoints have the digest of their step, %d directories are unfinished; %d starts from the store alone", *tierKillSeed, tally.kills, tally.late, tally.lost, tally.checked, tally.unfinished, tally.fromStore)
}

// digests trains without kills and returns the digest of the state after each step.
func (m *killMatrix) digests(t *testing.T) map[int]string {
	c := exec.Command(m.exe, "train", "--config", "tiers.yaml", "--output_dir", "whole",
		"--set", "checkpoint={save_every_n_steps: 1}")
	c.Dir = m.dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("the run without kills: %v\n%s", err, out)
	}
	all := map[int]string{}
	found, err := checkpoint.List(filepath.Join(m.dir, "whole", "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if all[f.Step], err = digestOf(f.Path); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) != tierSteps {
		t.Fatalf("%d checkpoints of %d steps", len(all), tierSteps)
	}
	return all
}

func digestOf(dir string) (string, error) {
	c, err := checkpoint.Open(dir)
	if err != nil {
		return "", err
	}
	defer c.Close()
	sum, err := c.StateDigest(context.Background())
	return fmt.Sprintf("%x", sum), err
}

func (j *tierJob) start() {
	j.cmd = exec.Command(j.exe, "train", "--config", "tiers.yaml", "--output_dir", j.out, "--resume", "auto", "--nproc", "2", "--max_restarts", "100",
		"--set", "checkpoint="+strings.ReplaceAll(j.mode.config, "LAST", j.last()))
	j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr, j.cmd.WaitDelay = j.dir, &j.text, &j.text, 5*time.Second
	j.cmd.Env = append(os.Environ(), "HOME="+j.dir, "TMPDIR="+j.temp(j.out))
	if err := j.cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	j.ended = make(chan struct{})
	go func(c *exec.Cmd, ended chan struct{}) { c.Wait(); close(ended) }(j.cmd, j.ended)
}

// last is the directory of the last tier.
func (j *tierJob) last() string { return "s3://" + objectstoretest.Bucket + "/" + j.out }

// disk is the directory of the run's checkpoints.
func (j *tierJob) disk() string { return filepath.Join(j.dir, j.out, "checkpoints") }

// until waits for a condition, or the end of the launcher. It fails after a minute.
func (j *tierJob) until(what string, ready func() bool) bool {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Microsecond) {
		select {
		case <-j.ended:
			return ready()
		default:
		}
		if ready() {
			return true
		}
		if time.Now().After(deadline) {
			j.cmd.Process.Kill()
			<-j.ended
			j.t.Fatalf("%s does not come\n%s", what, &j.text)
		}
	}
}

// step returns the step of the last record.
func (j *tierJob) step() (step int) {
	b, _ := os.ReadFile(filepath.Join(j.dir, j.out, "metrics.jsonl"))
	for line := range bytes.Lines(b) {
		var r struct{ Step int }
		if json.Unmarshal(line, &r) == nil {
			step = r.Step
		}
	}
	return step
}

// starts returns the steps after which the starts of the run went on.
func (j *tierJob) starts() (steps []int) {
	b, _ := os.ReadFile(filepath.Join(j.dir, j.out, "events.jsonl"))
	for line := range bytes.Lines(b) {
		if e, err := monitor.ParseEvent(line); err == nil && (e.Kind == monitor.EventStart || e.Kind == monitor.EventResume) {
			steps = append(steps, int(e.Step))
		}
	}
	return steps
}

// run kills a run n times and lets it end.
func (j *tierJob) run(n, first int, r *rand.Rand) {
	if err := os.MkdirAll(j.temp(j.out), 0o755); err != nil {
		j.t.Fatal(err)
	}
	j.start()
	for k := range n {
		if !j.kill((first+k)%3, r) {
			j.tally.mu.Lock()
			j.tally.late++
			j.tally.mu.Unlock()
		}
	}
	j.until("the end", func() bool { return false })
	if code := j.cmd.ProcessState.ExitCode(); code != 0 {
		j.t.Fatalf("code %d\n%s", code, &j.text)
	}
	for _, dir := range []string{j.disk(), j.last()} {
		if newest := j.verify(dir); newest != tierSteps && (j.mode.last || dir == j.disk()) {
			j.t.Errorf("the last checkpoint in %s is of step %d\n%s", dir, newest, &j.text)
		}
	}
	if left := glob(j.temp(j.out), "*"); len(left) > 0 {
		j.t.Errorf("left are %v", left)
	}
}

// kill kills a rank (victim 0), the launcher (1) or all (2), and starts the launcher again if it is dead. It reports
// whether the run was still on.
func (j *tierJob) kill(victim int, r *rand.Rand) bool {
	began := len(j.starts())
	at := 1 + r.IntN(tierSteps-5)
	j.until("the start", func() bool { return len(j.starts()) > 0 })
	j.until("the step", func() bool { return j.step() >= at })
	ranks := children(j.cmd.Process.Pid)
	time.Sleep(time.Duration(r.IntN(8000)) * time.Microsecond)
	step, starts := j.step(), len(j.starts())
	least := j.mode.least(step, victim > 0)
	if began = max(began, starts); len(ranks) == 0 {
		return false
	}
	if victim == 0 {
		if syscall.Kill(ranks[strconv.Itoa(r.IntN(2))], syscall.SIGKILL) != nil {
			return false
		}
	} else {
		select {
		case <-j.ended:
			return false
		default:
		}
		j.cmd.Process.Kill()
		if victim == 2 {
			for _, pid := range ranks {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		<-j.ended
		for i := 0; slices.ContainsFunc(values(ranks), alive); i++ {
			if time.Sleep(time.Millisecond); i == 5000 {
				j.t.Fatalf("processes are left: %v", ranks)
			}
		}
		newest := max(j.gone, j.verify(j.disk()))
		if newest < least {
			j.t.Errorf("killed after step %d, the newest checkpoint on disk is of step %d", step, newest)
		}
		if copied := j.verify(j.last()); copied > newest {
			j.t.Errorf("the last tier has step %d, the disk %d", copied, newest)
		} else if victim == 2 && j.mode.last {
			if err := os.RemoveAll(j.disk()); err != nil {
				j.t.Fatal(err)
			}
			least, j.gone = copied, copied
			j.tally.mu.Lock()
			j.tally.fromStore++
			j.tally.mu.Unlock()
		}
		j.start()
	}
	if !j.until("the next start", func() bool { return len(j.starts()) > began }) {
		return false // the last step was done, and the launcher did not restart the rank
	}
	after := j.starts()[began]
	if after < least {
		j.t.Errorf("%s: killed after step %d, went on after step %d\n%s", j.mode.name, step, after, &j.text)
	}
	j.tally.mu.Lock()
	defer j.tally.mu.Unlock()
	j.tally.kills[[]string{"rank", "launcher", "all"}[victim]+", "+j.mode.name]++
	j.tally.lost[max(0, step-after)]++
	return true
}

// verify compares all checkpoints in a directory that verify with the run without kills, and returns the newest step.
func (j *tierJob) verify(dir string) (newest int) {
	found, err := checkpoint.List(dir)
	if err != nil {
		j.t.Fatal(err)
	}
	j.tally.mu.Lock()
	defer j.tally.mu.Unlock()
	for _, f := range found {
		if f.Err != nil {
			j.tally.unfinished++
			continue
		}
		sum, err := digestOf(f.Path)
		if err != nil || sum != j.want[f.Step] {
			j.t.Errorf("%s: %v, digest %s, without kills %s", strings.TrimPrefix(f.Path, j.dir), err, sum, j.want[f.Step])
		}
		j.tally.checked++
		newest = max(newest, f.Step)
	}
	return newest
}
