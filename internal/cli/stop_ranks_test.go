package cli_test

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var allStops = flag.Bool("stops", false, "TestStoppedRanks: every rank of 2 and 3 in every phase, under either launcher")

const stoppedRun = `
model: {config: config.json}
data: {path: rows.jsonl, eval_path: eval.jsonl}
training: {micro_batch_size: 1, global_batch_size: 6, max_steps: 100000, learning_rate: 0.001}
logging: {tensorboard: false, log_every_n_steps: 1000}
device: {threads: 1}
`

const stoppedModel = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 4001, "hidden_size": 48,
 "intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
 "rope_theta": 10000, "max_position_embeddings": 32, "tie_word_embeddings": true, "initializer_range": 0.02}`

// stopPhases are the phases in which a rank is stopped: further arguments, and how to detect the phase
// in the output directory.
var stopPhases = []struct {
	name string
	args []string
	now  func(dir string) bool
}{
	{"rendezvous", nil, nil},
	{"step", nil, func(dir string) bool { return countLines(filepath.Join(dir, "metrics.jsonl")) > 20 }},
	{"save", []string{"checkpoint.save_every_n_steps=1", "checkpoint.keep_last_n=2"}, func(dir string) bool { return some(dir, "checkpoints/.tmp-*/*") }},
	{"evaluation", []string{"training.eval_every_n_steps=1"}, func(dir string) bool { return countLines(filepath.Join(dir, "metrics.jsonl")) > 1 }},
	{"export", []string{"training.max_steps=2"}, func(dir string) bool { return some(dir, ".*final_model*/*") || some(dir, "final_model/.tmp*") }},
}

func some(dir, pattern string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, pattern))
	return len(found) > 0
}

// ranks are processes of this test: our launcher, or one for each rank.
type ranks struct {
	cmds []*exec.Cmd
	errs []*output
	ends []chan error
}

// output can be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (r *ranks) start(t *testing.T, dir string, env, args []string) {
	t.Helper()
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	c, e, end := exec.Command(exe, args...), &output{}, make(chan error, 1)
	c.Dir, c.Stderr = dir, e
	c.Env = append(append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "HF_HUB_OFFLINE=1"), env...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { end <- c.Wait() }()
	r.cmds, r.errs, r.ends = append(r.cmds, c), append(r.errs, e), append(r.ends, end)
}

// TestStoppedRanks stops one rank in each phase: the others end soon, with code 76, and name it.
func TestStoppedRanks(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("ranks are found by /proc")
	}
	victims := [][2]int{{2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}}
	for i, launcher := range []string{"own", "foreign"} {
		for p, phase := range stopPhases {
			for v, victim := range victims {
				if !*allStops && (p+3*i)%len(victims) != v {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d of %d", launcher, phase.name, victim[1], victim[0]), func(t *testing.T) {
					t.Parallel()
					for range 5 {
						if stopOne(t, launcher == "own", p, victim[0], victim[1]) {
							return
						}
					}
					t.Error("the run was over before it was stopped, five times")
				})
			}
		}
	}
}

// stopOne returns false if the phase was over too soon.
func stopOne(t *testing.T, own bool, p, n, victim int) bool {
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 24 {
		fmt.Fprintf(&rows, "{\"input_ids\": [%d, 5, 9, 13, 17, 21, 25, 29]}\n", i)
	}
	for name, text := range map[string]string{"run.yaml": stoppedRun, "config.json": stoppedModel, "rows.jsonl": rows.String(), "eval.jsonl": strings.Repeat(rows.String(), 100)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	phase, world := stopPhases[p], n
	if !own && phase.now == nil {
		world++ // one more that never comes, or nobody would wait
	}
	args := []string{"train", "--config", "run.yaml", "--output_dir", "out", "--set", fmt.Sprintf("training.global_batch_size=%d", 6*world)}
	for _, a := range phase.args {
		args = append(args, "--set", a)
	}
	r := &ranks{}
	defer func() {
		for _, c := range r.cmds {
			c.Process.Kill()
		}
	}()
	if own {
		r.start(t, dir, nil, append(args, "--nproc", strconv.Itoa(n)))
	} else {
		for rank := range n {
			env := []string{fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", world), fmt.Sprint("LOCAL_RANK=", rank), fmt.Sprint("LOCAL_WORLD_SIZE=", world), fmt.Sprint("MASTER_PORT=", port(t, dir))}
			r.start(t, dir, env, args)
		}
	}
	pid := r.await(t, own, filepath.Join(dir, "out"), phase.now, victim)
	if pid == 0 {
		return false
	}
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return false // it has just ended
	}
	want := fmt.Sprintf("rank %d (pid %d on ", victim, pid)
	for i, end := range r.ends {
		if !own && i == victim {
			continue
		}
		select {
		case err := <-end:
			if err == nil {
				return false
			}
			lines := strings.Split(strings.TrimSpace(r.errs[i].String()), "\n")
			said := strings.Join(lines[max(0, len(lines)-3):], "\n")
			if own {
				said = lines[len(lines)-1]
			}
			if got := exitCode(err); got != "76" || !strings.Contains(said, want) || !strings.Contains(said, "is stopped (signal ") {
				t.Errorf("process %d: code %s, %s", i, got, r.errs[i])
			}
			// About a second on an idle machine.
			t.Logf("process %d ended %v after the stop: %s", i, time.Since(began).Round(time.Millisecond), said)
		case <-time.After(20 * time.Second):
			t.Errorf("process %d does not end: %s", i, r.errs[i])
		}
	}
	if own && alive(pid) {
		t.Errorf("the stopped process %d is left", pid)
	}
	return true
}

// port returns a free port for a directory, always the same.
func port(t *testing.T, dir string) string {
	path := filepath.Join(dir, "port")
	if b, err := os.ReadFile(path); err == nil {
		return string(b)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, p, _ := net.SplitHostPort(l.Addr().String())
	if err := os.WriteFile(path, []byte(p), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// await waits for the phase, and returns the victim's process, or 0 if the run has ended.
func (r *ranks) await(t *testing.T, own bool, out string, now func(string) bool, victim int) (pid int) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
		if own {
			pid = children(r.cmds[0].Process.Pid)[strconv.Itoa(victim)]
		} else {
			pid = r.cmds[victim].Process.Pid
		}
		waiting := true
		for _, e := range r.errs {
			waiting = waiting && strings.Contains(e.String(), "waiting for rank ")
		}
		switch {
		case pid != 0 && now != nil && now(out), pid != 0 && now == nil && (own || waiting):
			return pid
		case len(r.ends[0]) > 0:
			if err := <-r.ends[0]; err != nil {
				t.Fatalf("ended by itself with %v: %s", err, r.errs[0])
			}
			return 0
		case time.Now().After(end):
			t.Fatalf("the moment does not come: %s", r.errs[0])
		}
	}
}

// A second Ctrl-C ends a run at once, and says what is left of it.
func TestInterruptedTwice(t *testing.T) {
	for _, n := range []string{"1", "2"} {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rows := strings.Repeat("{\"input_ids\": [1, 5, 9, 13, 17, 21, 25, 29]}\n", 6000) // for a step that takes long
			for name, text := range map[string]string{"run.yaml": stoppedRun, "config.json": stoppedModel, "rows.jsonl": rows, "eval.jsonl": rows[:strings.Index(rows, "\n")]} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(dir, "out")
			for i, more := range []string{"none", "auto"} {
				r := &ranks{}
				r.start(t, dir, nil, []string{"train", "--config", "run.yaml", "--output_dir", "out", "--nproc", n, "--resume=" + more, "--set", "training.global_batch_size=6000", "--set", "checkpoint.save_every_n_steps=1"})
				defer r.cmds[0].Process.Kill()
				for end := time.Now().Add(60 * time.Second); countLines(filepath.Join(out, "metrics.jsonl")) < i+1 || !some(out, fmt.Sprintf("checkpoints/step-%d", i+1)); time.Sleep(time.Millisecond) {
					if time.Now().After(end) || len(r.ends[0]) > 0 {
						t.Fatalf("no step: %s", r.errs[0])
					}
				}
				r.cmds[0].Process.Signal(syscall.SIGINT)
				for end := time.Now().Add(20 * time.Second); !strings.Contains(r.errs[0].String(), "press Ctrl-C again"); time.Sleep(time.Millisecond) { // two pending signals would be one
					if time.Now().After(end) || len(r.ends[0]) > 0 {
						t.Fatalf("it does not stop: %s", r.errs[0])
					}
				}
				r.cmds[0].Process.Signal(syscall.SIGINT)
				// A step may end before the second signal on a busy machine.
				want := regexp.MustCompile(`(?m)^stopped at once by the second Ctrl-C, after step \d+; the last checkpoint is out/checkpoints/step-\d+\ntry: the same command with --resume auto$`)
				select {
				case err := <-r.ends[0]:
					if got := exitCode(err); got != "130" || !want.MatchString(r.errs[0].String()) {
						t.Errorf("code %s, %q without %v", got, r.errs[0], want)
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("it does not end: %s", r.errs[0])
				}
				events, err := os.ReadFile(filepath.Join(out, "events.jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				card, err := os.ReadFile(filepath.Join(out, "run.json"))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Count(string(events), `"exit":130`) != i+1 || !strings.Contains(string(card), `"exit": 130`) {
					t.Errorf("it is not recorded: %s %s", events, card)
				}
			}
		})
	}
}

// A rank that waits for others stops at once.
func TestStoppedWhileWaiting(t *testing.T) {
	for sig, code := range map[syscall.Signal]string{syscall.SIGTERM: "143", syscall.SIGINT: "130"} {
		for rank, other := range []int{1, 0} {
			t.Run(fmt.Sprintf("%v/%d", sig, rank), func(t *testing.T) {
				dir := t.TempDir()
				rows := strings.Repeat("{\"input_ids\": [1, 5, 9, 13, 17, 21, 25, 29]}\n", 24)
				for name, text := range map[string]string{"run.yaml": stoppedRun, "config.json": stoppedModel, "rows.jsonl": rows, "eval.jsonl": rows} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				r := &ranks{}
				r.start(t, dir, []string{fmt.Sprint("RANK=", rank), "WORLD_SIZE=2", "MASTER_PORT=" + port(t, dir)}, []string{"train", "--config", "run.yaml", "--output_dir", "out", "--set", "training.global_batch_size=6"})
				defer r.cmds[0].Process.Kill()
				want := fmt.Sprintf("waiting for rank %d of 2 at 127.0.0.1:%s", other, port(t, dir))
				for end := time.Now().Add(20 * time.Second); !strings.Contains(r.errs[0].String(), want); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) || len(r.ends[0]) > 0 {
						t.Fatalf("it does not say %q: %s", want, r.errs[0])
					}
				}
				began := time.Now()
				r.cmds[0].Process.Signal(sig)
				select {
				case err := <-r.ends[0]:
					if got := exitCode(err); got != code || time.Since(began) > 3*time.Second {
						t.Errorf("code %s after %v: %s", got, time.Since(began), r.errs[0])
					}
					t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
				case <-time.After(10 * time.Second):
					t.Errorf("does not end: %s", r.errs[0])
				}
			})
		}
	}
}
