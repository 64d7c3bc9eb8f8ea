//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"fmt"
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

	"trireme/internal/netns"
)

// hosts is some hosts with a shared file system, for jobs one after another.
type hosts struct {
	*netns.Net
	exe, dir string
}

// newHosts makes n hosts, the files of a job and the result of one rank, in directory "whole".
func newHosts(t *testing.T, n int) *hosts {
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	h := &hosts{Net: netns.New(t, n), exe: exe, dir: t.TempDir()}
	var rows strings.Builder
	for i := range 64 {
		fmt.Fprintf(&rows, "{\"input_ids\": [%d, %d, %d, 13, 17, 21, 25, 29]}\n", 1+i%17, 1+i%7, 1+i%31)
	}
	for name, text := range map[string]string{
		"rows.jsonl": rows.String(),
		"run.yaml": `model: {config: config.json}
data: {path: rows.jsonl}
training: {micro_batch_size: 1, global_batch_size: 12, max_steps: 240, learning_rate: 0.001}
checkpoint: {save_every_n_steps: 20, keep_last_n: 3}
logging: {tensorboard: false}
parallel: {grace_seconds: 2, stop_seconds: 20, timeout_seconds: 60}
device: {threads: 1}
`,
		"config.json": `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 37, "hidden_size": 24,
 "intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
 "rope_theta": 10000, "max_position_embeddings": 32, "tie_word_embeddings": true, "initializer_range": 0.02}
`,
		"job.secret": "a secret of more than sixteen bytes",
	} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole := exec.Command(exe, "train", "--config", "run.yaml", "--output_dir", "whole")
	whole.Dir = h.dir
	if out, err := whole.CombinedOutput(); err != nil {
		t.Fatalf("one rank: %v\n%s", err, out)
	}
	return h
}

// hostJob is one job on hosts. Its name is the directory of its run.
type hostJob struct {
	*hosts
	t         *testing.T
	name      string
	args      []string // of the launchers
	set       []string // of train
	launchers []*launcher
}

// launcher is a launcher of a host, with its workers.
type launcher struct {
	host    *netns.Host
	cmd     *exec.Cmd
	began   time.Time
	mu      sync.Mutex
	out     bytes.Buffer
	workers map[int]bool // that were seen
	done    chan struct{}
	code    int // after done
}

func (l *launcher) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(b) {
		fmt.Fprintf(&l.out, "%6.2f %s", time.Since(l.began).Seconds(), line)
	}
	return len(b), nil
}

func (l *launcher) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// start starts a launcher with nproc workers on a host.
func (j *hostJob) start(host, nproc int, args ...string) *launcher {
	l := &launcher{host: j.Hosts[host], began: time.Now(), done: make(chan struct{}), workers: map[int]bool{}}
	line := slices.Concat([]string{"launch", "--nproc_per_node", strconv.Itoa(nproc), "--rdzv_id", j.name}, j.args, args,
		[]string{"--", j.exe, "train", "--config", "run.yaml", "--output_dir", j.name}, j.set)
	l.cmd = l.host.Command(context.Background(), j.exe, line...)
	l.cmd.Dir, l.cmd.Stdout, l.cmd.Stderr = j.dir, l, l
	l.cmd.Env = append(os.Environ(), "HOME="+j.dir, "TRIREME_JOB_SECRET_FILE=job.secret")
	l.cmd.WaitDelay = 5 * time.Second
	if err := l.cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	go func() {
		l.cmd.Wait()
		if l.code = l.cmd.ProcessState.ExitCode(); l.code < 0 {
			l.code = 128 + int(l.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		}
		close(l.done)
	}()
	j.launchers = append(j.launchers, l)
	return l
}

// worker returns the pid of a launcher's first worker, or 0.
func (l *launcher) worker() int {
	first := 0
	for rank, pid := range children(l.cmd.Process.Pid) {
		l.workers[pid] = true
		if _, err := strconv.Atoi(rank); err == nil && (first == 0 || pid < first) {
			first = pid
		}
	}
	return first
}

func (l *launcher) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// steps returns the number of the last step in the job's records.
func (j *hostJob) steps() int { return countLines(filepath.Join(j.dir, j.name, "metrics.jsonl")) }

// await waits until the job has made steps.
func (j *hostJob) await(steps int) {
	j.t.Helper()
	for end := time.Now().Add(60 * time.Second); j.steps() < steps; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			j.t.Fatalf("%d steps after 60 s, not %d\n%s", j.steps(), steps, j.outputs())
		}
	}
}

// wait waits for launchers to end.
func (j *hostJob) wait(ls ...*launcher) {
	j.t.Helper()
	end := time.After(90 * time.Second)
	for _, l := range ls {
		select {
		case <-l.done:
		case <-end:
			for _, pid := range children(l.cmd.Process.Pid) {
				syscall.Kill(pid, syscall.SIGQUIT)
			}
			time.Sleep(time.Second)
			j.t.Errorf("%s: the launcher did not end\n%s", l.host.Name, j.outputs())
			j.kill()
			return
		}
	}
}

// kill ends what is left of the job.
func (j *hostJob) kill() {
	for _, l := range j.launchers {
		l.worker()
		l.cmd.Process.Kill()
		<-l.done
		for pid := range l.workers {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (j *hostJob) outputs() string {
	var b strings.Builder
	for _, l := range j.launchers {
		fmt.Fprintf(&b, "--- %s (ended: %v)\n%s", l.host.Name, l.ended(), l.text())
	}
	return b.String()
}

// same compares the job's result with that of one rank: records and weights.
func (j *hostJob) same() {
	j.t.Helper()
	got, err := os.ReadFile(filepath.Join(j.dir, j.name, "final_model", "model.safetensors"))
	want, _ := os.ReadFile(filepath.Join(j.dir, "whole", "final_model", "model.safetensors"))
	if err != nil || len(want) == 0 || !bytes.Equal(got, want) {
		j.t.Errorf("the weights differ from those of one rank (%v)\n%s", err, j.outputs())
	}
	figures, err := stepFigures(filepath.Join(j.dir, j.name, "metrics.jsonl"))
	whole, _ := stepFigures(filepath.Join(j.dir, "whole", "metrics.jsonl"))
	if err != nil || figures != whole {
		j.t.Errorf("the records differ from those of one rank (%v)", err)
	}
}

// newJob returns a job whose launchers are killed at the end of the test.
func (h *hosts) newJob(t *testing.T, name string, args ...string) *hostJob {
	j := &hostJob{hosts: h, t: t, name: name, args: args}
	t.Cleanup(j.kill)
	return j
}

// TestHosts runs jobs on four hosts with different numbers of ranks.
func TestHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	h := newHosts(t, 4)
	t.Run("static", func(t *testing.T) {
		j := h.newJob(t, "static", "--nnodes", "4", "--master_addr", "node0")
		for i, n := range []int{1, 2, 1, 1} {
			j.start(i, n, "--node_rank", strconv.Itoa(i))
		}
		j.wait(j.launchers...)
		j.zero(j.launchers...)
		j.same()
	})
	t.Run("hybrid_shard", func(t *testing.T) {
		j := h.newJob(t, "hybrid", "--nnodes", "4", "--rdzv_endpoint", "node0:29400")
		j.set = []string{"--set", "parallel.strategy=hybrid_shard"}
		for i := range 4 {
			j.start(i, 2)
		}
		j.wait(j.launchers...)
		j.zero(j.launchers...)
		j.same()
		if text := j.outputs(); !strings.Contains(text, "hybrid_shard") {
			t.Errorf("no hybrid_shard in\n%s", text)
		}
	})
	// A host is lost, and another joins later.
	t.Run("elastic", func(t *testing.T) {
		j := h.newJob(t, "elastic", "--nnodes", "2:4", "--rdzv_endpoint", "node0:29400", "--rdzv_conf", "last_call_timeout=1")
		for i := range 3 {
			j.start(i, 1)
		}
		j.await(30)
		j.launchers[2].cmd.Process.Kill()
		j.await(60)
		j.start(3, 2)
		j.wait(j.launchers...)
		j.zero(j.launchers[0], j.launchers[1], j.launchers[3])
		j.same()
	})
}

// zero checks that launchers ended with code 0.
func (j *hostJob) zero(ls ...*launcher) {
	j.t.Helper()
	for _, l := range ls {
		if l.code != 0 {
			j.t.Errorf("%s: code %d\n%s", l.host.Name, l.code, l.text())
		}
	}
}
