//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"trireme/internal/cli"
)

var (
	hangs    = flag.Int("hangs", 8, "TestHangs: number of cases")
	hangSeed = flag.Uint64("hangseed", 1, "TestHangs: seed")
)

// hangLimit is parallel.timeout_seconds of TestHangs. A report may take two seconds more.
const (
	hangLimit  = 2 * time.Second
	hangReport = 2 * time.Second
)

// aHang is a kind of fault with what the report must say.
type aHang struct {
	name     string
	fault    cli.Fault
	limit    time.Duration // from the fault to the end of the run, without hangReport; 0: at once
	awaited  bool          // the others wait in the store, which has no limit: doctor job says for whom
	activity string        // a pattern of the report
	args     []string
}

const collectivePattern = `(all_gather|reduce_scatter|all_reduce) #\d+`

var hangKinds = []aHang{
	{name: "loader", fault: cli.Fault{Kind: "sleep", Activity: "loading data"}, limit: hangLimit, activity: `in data\.Next reading rows\.jsonl:\d+`},
	{name: "forward", fault: cli.Fault{Kind: "sleep", Activity: "forward"}, limit: hangLimit, activity: `computing forward of (embed_tokens|layers\.\d|lm_head)`},
	{name: "backward", fault: cli.Fault{Kind: "sleep", Activity: "backward"}, limit: hangLimit, activity: `computing backward of (embed_tokens|layers\.\d|lm_head)`},
	{name: "evaluation", fault: cli.Fault{Kind: "sleep", Activity: "evaluating"}, limit: hangLimit, activity: `is evaluating`, args: []string{"training.eval_every_n_steps=2"}},
	{name: "skip", fault: cli.Fault{Kind: "skip"}, activity: `differs|they wait for each other`},
	{name: "order", fault: cli.Fault{Kind: "swap"}, activity: `differs|they wait for each other`},
	{name: "stopped", fault: cli.Fault{Kind: "stop", Activity: "backward"}, limit: time.Second, activity: `is stopped \(signal 19\).* it was computing backward of `},
	{name: "stopped in the loader", fault: cli.Fault{Kind: "stop", Activity: "loading data"}, limit: time.Second, activity: `is stopped \(signal 19\).* it was in data\.Next reading rows\.jsonl:\d+`},
	{name: "dead", fault: cli.Fault{Kind: "die", Activity: "forward"}, activity: `was killed \(signal 9\).* it was computing forward of `},
	{name: "dead in a collective", fault: cli.Fault{Kind: "die", Activity: "waiting"}, activity: `was killed \(signal 9\).* it (waited in|was (waiting|computing))`},
	{name: "checkpoint", fault: cli.Fault{Kind: "sleep", Activity: "saving a checkpoint"}, awaited: true, activity: `is saving a checkpoint step-\d+`, args: []string{"checkpoint.save_every_n_steps=3"}},
	{name: "tokenizing", fault: cli.Fault{Kind: "sleep", Activity: "tokenizing"}, awaited: true, activity: `is tokenizing `},
}

// TestHangs injects faults from a seed into real runs. The report names rank, collective and activity, within
// two seconds of the limit.
func TestHangs(t *testing.T) {
	random := rand.New(rand.NewPCG(*hangSeed, 0))
	first := random.IntN(len(hangKinds))
	for i := range *hangs {
		h := hangKinds[(first+i)%len(hangKinds)]
		n := 2 + random.IntN(3)
		h.fault.Rank, h.fault.For = random.IntN(n), time.Hour
		h.fault.After = int64(random.IntN(8))
		switch {
		case h.name == "tokenizing":
			h.fault.After = 0
		case h.fault.Activity == "loading data": // batches are prefetched: a rank seldom waits
			h.fault.After = 0
		case h.fault.Kind == "die": // else there may be no collective yet
			h.fault.After += 24
		case h.fault.Activity == "":
			h.fault.After += 30
		}
		backend := []string{"shm", "tcp"}[random.IntN(2)]
		t.Run(fmt.Sprintf("%d %s, rank %d of %d, %s", i, h.name, h.fault.Rank, n, backend), func(t *testing.T) {
			h.run(t, n, backend)
		})
	}
}

func (h *aHang) run(t *testing.T, n int, backend string) {
	c, errs, dir := h.start(t, n, backend, "--set", fmt.Sprintf("parallel.timeout_seconds=%g", hangLimit.Seconds()))
	ended := make(chan struct{})
	go func() {
		c.Wait()
		close(ended)
	}()
	if h.awaited {
		h.runAwaited(t, c, ended, errs, dir)
		return
	}
	select {
	case <-ended:
	case <-time.After(60 * time.Second):
		c.Process.Kill()
		<-ended
		t.Fatalf("did not end:\n%s", errs)
	}
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	h.check(t, lines[len(lines)-1], errs.String())
	state := filepath.Join(dir, "out", "logs", fmt.Sprintf("rank-%04d.state", h.fault.Rank))
	h.checkTime(t, state)
}

// start starts a run with the fault.
func (h *aHang) start(t *testing.T, n int, backend string, args ...string) (c *exec.Cmd, errs *output, dir string) {
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var rows strings.Builder
	for i := range 240 {
		fmt.Fprintf(&rows, "{\"input_ids\": [%d, %d, %d, 13, 17, 21, 25, 29]}\n", 1+i%17, 1+i%7, 1+i%31)
	}
	write("config.json", stoppedModel)
	write("run.yaml", stoppedRun)
	write("rows.jsonl", rows.String())
	write("eval.jsonl", rows.String())
	fault, _ := json.Marshal(h.fault)
	args = append([]string{"train", "--config", "run.yaml", "--nproc", strconv.Itoa(n), "--output_dir", "out",
		"--set", "training.global_batch_size=12", "--set", "parallel.backend=" + backend, "--set", "parallel.grace_seconds=3"}, args...)
	for _, a := range h.args {
		args = append(args, "--set", a)
	}
	c, errs = exec.Command(exe, args...), &output{}
	c.Dir, c.Stderr, c.WaitDelay = dir, errs, 5*time.Second
	c.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "HF_HUB_OFFLINE=1", cli.FaultVar+"="+string(fault))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, errs, dir
}

// TestLongWork stretches the tokenizing, saving and exporting of one rank past every time-out: no collective is open
// meanwhile, and the run completes.
func TestLongWork(t *testing.T) {
	for _, backend := range []string{"shm", "tcp"} {
		for _, rank := range []int{0, 1} {
			for _, activity := range []string{"tokenizing", "saving a checkpoint", "exporting", "preparing", "loading weights"} {
				if (rank == 0) != (backend == "shm") && activity != "saving a checkpoint" { // half of the cases
					continue
				}
				t.Run(fmt.Sprintf("%s of rank %d, %s", activity, rank, backend), func(t *testing.T) {
					t.Parallel()
					h := aHang{fault: cli.Fault{Rank: rank, Kind: "sleep", Activity: activity, For: 3 * time.Second, Every: true},
						args: []string{"training.max_steps=3", "checkpoint.save_every_n_steps=2", "parallel.timeout_seconds=1"}}
					c, errs, dir := h.start(t, 2, backend)
					if err := c.Wait(); err != nil {
						t.Fatalf("%v:\n%s", err, errs)
					}
					if _, err := os.Stat(filepath.Join(dir, "out", "final_model", "config.json")); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// check checks the report: rank, collective, activity.
func (h *aHang) check(t *testing.T, last, all string) {
	for _, want := range []string{fmt.Sprintf(`rank %d\b`, h.fault.Rank), collectivePattern, h.activity} {
		if !regexp.MustCompile(want).MatchString(last) {
			t.Errorf("the report does not match %q:\n%s", want, all)
			return
		}
	}
	t.Log(last)
}

// checkTime compares the end with the last progress of the rank with the fault.
func (h *aHang) checkTime(t *testing.T, state string) {
	took, ok := cli.SinceProgress(state)
	if !ok || h.limit == 0 {
		return
	}
	t.Logf("ended %.1f s after the fault, the limit is %v", took.Seconds(), h.limit)
	if took > h.limit+hangReport+time.Second { // a second to end all processes
		t.Errorf("ended %v after the fault, the limit is %v", took, h.limit)
	}
}

// runAwaited checks that the run waits, that rank 0 says for whom, and that doctor job says it within two
// seconds.
func (h *aHang) runAwaited(t *testing.T, c *exec.Cmd, ended <-chan struct{}, errs *output, dir string) {
	defer func() {
		c.Process.Kill()
		<-ended
	}()
	var out, first []byte
	want := regexp.MustCompile(fmt.Sprintf(`rank %d\b.*rank %d %s.*\([1-9][\d.]* s\)`, h.fault.Rank, h.fault.Rank, h.activity)) // for a second
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("the run ended:\n%s", errs)
		default:
		}
		doctor := exec.Command(c.Path, "doctor", "job", "out")
		doctor.Dir, doctor.Env = dir, append(os.Environ(), "HOME="+dir)
		out, _ = doctor.Output()
		if first, _, _ = bytes.Cut(out, []byte("\n")); want.Match(first) {
			break
		}
	}
	if !want.Match(first) {
		t.Errorf("doctor job does not match %q:\n%s\n%s", want, out, errs)
		return
	}
	t.Logf("%s", first)
	time.Sleep(2 * hangLimit) // it has no limit
	select {
	case <-ended:
		t.Errorf("the run ended:\n%s", errs)
	default:
	}
	if text := errs.String(); !regexp.MustCompile(fmt.Sprintf(`waiting for rank %d .* rank %d %s`, h.fault.Rank, h.fault.Rank, h.activity)).MatchString(text) {
		t.Errorf("no notice names the rank:\n%s", text)
	}
}
