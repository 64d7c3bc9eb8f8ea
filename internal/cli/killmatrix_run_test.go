//go:build linux

package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killMatrix is the directory of the cases.
type killMatrix struct{ exe, dir string }

func (m *killMatrix) write(t *testing.T) {
	rows := func(n, from int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "{\"input_ids\": [%d, %d, %d, 13, 17, 21, 25, 29]}\n", from+i%17, 1+i%7, 1+i%31)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"rows.jsonl": rows(60, 1), "eval.jsonl": rows(300, 3),
		"run.yaml": `model: {config: config.json}
data: {path: rows.jsonl, eval_path: eval.jsonl}
training: {micro_batch_size: 1, global_batch_size: 48, max_steps: 12, learning_rate: 0.001, eval_every_n_steps: 4}
checkpoint: {save_every_n_steps: 4}
logging: {tensorboard: false}
parallel: {grace_seconds: 3, stop_seconds: 30, timeout_seconds: 60}
device: {threads: 1}
`,
		"config.json": `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 37, "hidden_size": 24,
 "intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
 "rope_theta": 10000, "max_position_embeddings": 32, "tie_word_embeddings": true, "initializer_range": 0.02}
`,
	} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// command returns the command of a case.
func (m *killMatrix) command(out, resume string, kc killCase) *exec.Cmd {
	c := exec.Command(m.exe, "train", "--config", "run.yaml", "--output_dir", out, "--resume", resume, "--nproc", strconv.Itoa(kc.ranks), "--set", "parallel.backend="+kc.transport(),
		"--set", "device.ranks_per_process="+strconv.Itoa(kc.each), "--set", fmt.Sprintf("checkpoint.async=%v", kc.async))
	c.Dir = m.dir
	c.Env = append(os.Environ(), "HOME="+m.dir, "TMPDIR="+m.temp(out))
	return c
}

func (m *killMatrix) temp(out string) string { return filepath.Join(m.dir, out+".tmp") }

// run runs one case.
func (m *killMatrix) run(t *testing.T, out string, c killCase) (o killOutcome) {
	o.killCase = c
	fail := func(format string, args ...any) { o.failed = append(o.failed, fmt.Sprintf(format, args...)) }
	if err := os.MkdirAll(m.temp(out), 0o755); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd := m.command(out, "auto", c)
	cmd.Stderr = &errs
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ended error
	done := make(chan struct{})
	go func() {
		ended = cmd.Wait()
		close(done)
	}()
	pid, ranks := m.reach(out, c, cmd.Process.Pid, done)
	o.late = pid == 0
	records := filepath.Join(m.dir, out, "metrics.jsonl")
	o.lines = countLines(records)
	hit := time.Now()
	if pid != 0 {
		o.late = syscall.Kill(pid, c.signal) != nil
	}
	if c.signal == syscall.SIGSTOP && c.victim == "launcher" {
		time.Sleep(300 * time.Millisecond)
		syscall.Kill(cmd.Process.Pid, syscall.SIGCONT)
	}
	select {
	case <-done:
	case <-time.After(40 * time.Second):
		cmd.Process.Kill()
		<-done
		fail("did not end within 40s")
	}
	o.took = time.Since(hit)
	o.total = countLines(records)
	if o.code = cmd.ProcessState.ExitCode(); o.code < 0 {
		o.code = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	var exit *exec.ExitError
	if ended != nil && !errors.As(ended, &exit) {
		fail("%v", ended)
	}
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	o.last = lines[len(lines)-1]
	if why := c.wrong(o); why != "" {
		for _, path := range glob(m.dir, out, "logs", "crash-*") {
			b, _ := os.ReadFile(path)
			errs.Write(b)
		}
		fail("%s: code %d after %v:\n%s", why, o.code, o.took, &errs)
	}
	m.left(out, ranks, fail)
	m.resumed(out, c, fail)
	return o
}

// reach waits for the phase of a case and its delay, and returns the victim's process, 0 if the run
// ended before, and the processes of the ranks.
func (m *killMatrix) reach(out string, c killCase, launcher int, done <-chan struct{}) (pid int, ranks map[string]int) {
	over := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	began := time.Now()
	until := func(ready func() bool) bool {
		for !ready() {
			if over() {
				return false
			}
			time.Sleep(200 * time.Microsecond)
		}
		return true
	}
	find := func() bool {
		victim := strconv.Itoa(c.first())
		until(func() bool { ranks = children(launcher); return c.victim == "launcher" || ranks[victim] != 0 })
		pid = ranks[victim]
		if c.victim == "launcher" {
			pid = launcher
		}
		return pid != 0
	}
	if c.phase != "startup" || c.victim != "launcher" { // whoever is hit must be there
		if c.phase != "startup" {
			until(func() bool { return len(glob(m.dir, out, fmt.Sprintf("logs/rank-%04d.log", c.each))) > 0 })
		}
		if !find() {
			return 0, ranks
		}
	} else {
		pid = launcher
	}
	lines := func(n int) func() bool {
		return func() bool { return countLines(filepath.Join(m.dir, out, "metrics.jsonl")) >= n }
	}
	ok := true
	switch c.phase {
	case "startup":
		ok = until(func() bool { return time.Since(began) >= c.delay })
		if c.victim == "launcher" {
			ranks = children(launcher)
		}
		if !ok {
			return 0, ranks
		}
		return pid, ranks
	case "step":
		ok = until(lines(1 + int(c.delay/time.Millisecond)%3))
	case "save":
		ok = until(func() bool { return len(glob(m.dir, out, "checkpoints/.tmp-*")) > 0 })
	case "evaluation":
		ok = until(lines(4))
	case "export":
		ok = until(func() bool { return len(glob(m.dir, out, "final_model")) > 0 })
	}
	if !ok {
		return 0, ranks
	}
	time.Sleep(c.delay)
	return pid, ranks
}

func glob(parts ...string) []string {
	found, _ := filepath.Glob(filepath.Join(parts...))
	return found
}

// wrong returns the deviation of a run's end from the documentation, or "".
func (c killCase) wrong(o killOutcome) string {
	may := func(codes ...int) bool { return slices.Contains(codes, o.code) }
	names := c.victim != "launcher" && c.names(o.last)
	limit := 3*time.Second + 3*time.Second // the grace, and a busy machine
	stopCode := map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130}[c.signal]
	begun := c.phase != "startup" && c.phase != "rendezvous"
	if o.code == 0 && (o.late || c.signal == syscall.SIGQUIT || c.victim == "launcher" && c.signal == syscall.SIGSTOP) {
		return ""
	}
	if o.code == 0 { // the last step was under way, or the end after it
		if o.lines < o.total-4 {
			return fmt.Sprintf("the signal was lost after %d of %d records", o.lines, o.total)
		}
		return ""
	}
	if o.late {
		return "ended by itself"
	}
	switch {
	case o.took > limit && c.signal != syscall.SIGQUIT && !(c.signal == syscall.SIGSTOP && c.victim == "launcher"):
		return "took too long"
	case c.signal == syscall.SIGTERM, c.signal == syscall.SIGINT:
		switch {
		case may(75):
			return ""
		case !begun && may(stopCode) && (c.victim == "launcher" || names):
			return ""
		}
	case c.signal == syscall.SIGQUIT:
		if !begun && may(131, 134) && (c.victim == "launcher" || names) {
			return "" // it had not begun to listen
		}
	case c.signal == syscall.SIGKILL && c.victim == "launcher":
		if may(137) {
			return ""
		}
	case c.signal == syscall.SIGKILL:
		if may(137) && names {
			return ""
		}
	case c.signal == syscall.SIGSTOP && c.victim != "launcher":
		if may(76) && names {
			return ""
		}
	}
	return "not as documented"
}

// left returns the leftovers of a run.
func (m *killMatrix) left(out string, ranks map[string]int, fail func(string, ...any)) {
	for i := 0; slices.ContainsFunc(values(ranks), alive); i++ { // those whose parent is gone take a moment
		if i == 500 {
			fail("processes are left: %v", ranks)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, path := range glob(m.temp(out), "*") {
		if !strings.HasPrefix(filepath.Base(path), "trireme-goroutines-") {
			fail("left in TMPDIR: %s", path)
		}
	}
	for _, path := range glob(m.dir, out, "logs", "crash-*") {
		if st, err := os.Stat(path); err == nil && st.Size() == 0 {
			fail("left: %s, empty", path)
		}
	}
}

// resumed resumes the run and compares the result.
func (m *killMatrix) resumed(out string, c killCase, fail func(string, ...any)) {
	text, err := m.command(out, "auto", c).CombinedOutput()
	if err != nil {
		fail("resumed: %v\n%s", err, text)
		return
	}
	for _, name := range []string{"model.safetensors", "config.json"} {
		got, err := os.ReadFile(filepath.Join(m.dir, out, "final_model", name))
		want, _ := os.ReadFile(filepath.Join(m.dir, "whole", "final_model", name))
		if err != nil || len(want) == 0 || !bytes.Equal(got, want) {
			fail("resumed: %s differs (%v)\n%s", name, err, text)
		}
	}
	got, err := stepFigures(filepath.Join(m.dir, out, "metrics.jsonl"))
	want, wrong := stepFigures(filepath.Join(m.dir, "whole", "metrics.jsonl"))
	if err != nil || wrong != nil || got != want {
		fail("resumed: metrics are\n%s, not\n%s (%v, %v)", got, want, err, wrong)
	}
	for _, pattern := range []string{"checkpoints/.tmp-*", "final_model/*tmp*", ".*.tmp*", "*.tmp"} {
		if left := glob(m.dir, out, pattern); len(left) > 0 {
			fail("left after all: %v", left)
		}
	}
}
