package cli_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"trireme/internal/clustertest"
	"trireme/internal/netns"
)

// needPrograms skips a test without programs that other packages of the system have.
func needPrograms(t *testing.T, packages string, names ...string) {
	t.Helper()
	for _, name := range names {
		clustertest.Program(t, name, packages)
	}
}

// smallJob writes a small job to a new directory and returns the directory. steps is its max_steps.
func smallJob(t *testing.T, steps int) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"run.yaml": fmt.Sprintf(`model: {config: config.json}
data: {path: rows.jsonl}
training: {micro_batch_size: 1, global_batch_size: 4, max_steps: %d, learning_rate: 0.01}
logging: {tensorboard: false, log_every_n_steps: 1000}
device: {threads: 1}
`, steps),
		"config.json": `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 37, "hidden_size": 24,
"intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
"rope_theta": 10000, "max_position_embeddings": 32, "tie_word_embeddings": true, "initializer_range": 0.02}`,
		"rows.jsonl": `{"input_ids": [1, 5, 9, 13, 17, 21, 25, 29]}
{"input_ids": [2, 6, 10, 14, 18, 22, 26, 30]}
{"input_ids": [3, 7, 11, 15, 19, 23, 27, 31]}
{"input_ids": [4, 8, 12, 16, 20, 24, 28, 32]}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// weightsOf returns the final weights of a run.
func weightsOf(t *testing.T, dir, run string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, run, "final_model", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// slurm is a Slurm cluster of network namespaces, with its own authentication, ports and directories.
type slurm struct {
	t     *testing.T
	net   *netns.Net
	dir   string // for commands
	state string
	conf  string
}

// newSlurm starts a cluster of n nodes with 4 processors each.
func newSlurm(t *testing.T, n int, dir string) *slurm {
	needPrograms(t, "slurmd slurmctld slurm-client munge", "slurmd", "slurmctld", "srun", "munged")
	s := &slurm{t: t, net: netns.New(t, n), dir: dir}
	var err error
	if s.state, err = os.MkdirTemp("", "slurm"); err != nil { // short: sockets are in it
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.state) })
	if err := os.Chmod(s.state, 0o755); err != nil { // for munged's socket
		t.Fatal(err)
	}
	s.conf = filepath.Join(s.state, "slurm.conf")
	key := make([]byte, 128)
	rand.Read(key)
	nodes := ""
	for _, h := range s.net.Hosts {
		nodes += fmt.Sprintf("NodeName=%s NodeAddr=%s Port=26818 CPUs=4 RealMemory=100 State=UNKNOWN\n", h.Name, h.Addr)
		if err := os.Mkdir(filepath.Join(s.state, "spool-"+h.Name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	conf := strings.ReplaceAll(`ClusterName=test
SlurmctldHost=node0
SlurmctldPort=26817
AuthType=auth/munge
AuthInfo=socket=DIR/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool-%n
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=30
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`, "DIR", s.state)
	for name, b := range map[string][]byte{"munge.key": key, "slurm.conf": []byte(conf + nodes), "cgroup.conf": []byte("CgroupPlugin=cgroup/v1\n")} {
		if err := os.WriteFile(filepath.Join(s.state, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.state, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(s.state, name) }
	s.daemon(0, "munged", "--foreground", "--force", "--key-file="+at("munge.key"), "--socket="+at("munge.sock"), "--pid-file="+at("munged.pid"), "--log-file="+at("munged.log"), "--seed-file="+at("munge.seed"))
	s.daemon(0, "slurmctld", "-D")
	for i, h := range s.net.Hosts {
		s.daemon(i, "slurmd", "-D", "-N", h.Name)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		out, _ := s.run(0, nil, "sinfo", "-h", "-N", "-o", "%T")
		if strings.Count(out, "idle\n") == n {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("the nodes of Slurm are not idle: %s", out)
		}
	}
}

// daemon runs a daemon until the test ends.
func (s *slurm) daemon(host int, name string, args ...string) {
	log, err := os.Create(filepath.Join(s.state, fmt.Sprintf("%s-%d.log", name, host)))
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.net.Hosts[host].Command(context.Background(), name, args...)
	c.Env = append(os.Environ(), "SLURM_CONF="+s.conf)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		ended := time.AfterFunc(5*time.Second, func() { c.Process.Kill() })
		c.Wait()
		ended.Stop()
		log.Close()
		if b, err := os.ReadFile(log.Name()); err == nil && s.t.Failed() {
			s.t.Logf("%s:\n%s", log.Name(), b[max(0, len(b)-4000):])
		}
	})
}

// run runs a command on a host and returns its output.
func (s *slurm) run(host int, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	c := s.net.Hosts[host].Command(ctx, name, args...)
	c.Dir = s.dir
	c.Env = append(append(os.Environ(), "SLURM_CONF="+s.conf), env...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	return out.String(), err
}

// TestSlurm runs jobs on a real Slurm of two hosts.
func TestSlurm(t *testing.T) {
	dir := smallJob(t, 3)
	s := newSlurm(t, 2, dir)
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	train := func(run string, more ...string) []string {
		return append([]string{exe, "train", "--config", "run.yaml", "--output_dir", run}, more...)
	}
	if out, err := s.run(0, nil, exe, train("own", "--nproc", "4")[1:]...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	secret := []string{"TRIREME_JOB_SECRET=" + strings.Repeat("ab", 32)}
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"one host", nil, append([]string{"srun", "-N1", "-n4"}, train("one")...), "world: 4 ranks on this machine, started by srun, "},
		{"two hosts, uneven", secret, append([]string{"srun", "-N2", "-n3", "--ntasks-per-node=2"}, train("two")...), "world: 3 ranks on 2 machines, started by srun, "},
		{"launch", secret, append([]string{"srun", "-N2", "--ntasks-per-node=1", exe, "launch", "--nproc_per_node", "2", "--"}, train("launched")...), "world: 4 ranks on 2 machines"},
		{"the shell of salloc", nil, append([]string{"salloc", "-Q", "-n3"}, train("shell")...), "world: 1 rank, local"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := s.run(0, c.env, c.args[0], c.args[1:]...)
			if err != nil || !strings.Contains(out, c.want) {
				t.Fatalf("%v, want %q\n%s", err, c.want, out)
			}
			run := filepath.Base(c.args[len(c.args)-1])
			if !bytes.Equal(weightsOf(t, dir, "own"), weightsOf(t, dir, run)) {
				t.Errorf("the weights of %s differ from those of --nproc 4", run)
			}
		})
	}
	t.Run("no secret", func(t *testing.T) {
		out, err := s.run(0, nil, "srun", append([]string{"-N2", "-n2"}, train("none")...)...)
		if err == nil || !strings.Contains(out, "try: export TRIREME_JOB_SECRET=$(openssl rand -hex 32) before srun") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("two launches on a host", func(t *testing.T) {
		out, err := s.run(0, nil, "srun", "-N1", "-n2", exe, "launch", "--nproc_per_node", "2", "--", "true")
		if err == nil || !strings.Contains(out, "srun started 2 tasks on this host, and each would launch workers") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("scancel", func(t *testing.T) { s.cancel(train("canceled", "--set", "training.max_steps=1000000")) })
	t.Run("sbatch", func(t *testing.T) {
		script := "#!/bin/sh\n#SBATCH --nodes=2 --ntasks-per-node=2\n" + strings.Join(train("batch0", "--dry_run"), " ") + " && srun " + strings.Join(train("batch"), " ") + "\n"
		if err := os.WriteFile(filepath.Join(dir, "job.sh"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := s.run(0, secret, "sbatch", "-o", "job.out", "job.sh"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) { // sbatch --wait polls every 10 s
			if jobs, err := s.run(0, nil, "squeue", "-h"); err == nil && jobs == "" {
				break
			}
		}
		if b, err := os.ReadFile(filepath.Join(dir, "job.out")); err != nil || !strings.Contains(string(b), "model: batch/final_model") {
			t.Fatalf("%v\n%s", err, b)
		}
		if !bytes.Equal(weightsOf(t, dir, "own"), weightsOf(t, dir, "batch")) {
			t.Error("the weights differ from those of --nproc 4")
		}
	})
}

// cancel cancels a job when it trains: it saves a checkpoint and ends with code 75.
func (s *slurm) cancel(command []string) {
	done := make(chan struct{})
	var out string
	go func() {
		defer close(done)
		out, _ = s.run(0, nil, "srun", append([]string{"-N1", "-n4"}, command...)...)
	}()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if b, _ := os.ReadFile(filepath.Join(s.dir, "canceled", "metrics.jsonl")); len(b) > 0 {
			break
		}
		if time.Now().After(end) {
			s.t.Fatal("the job does not start")
		}
	}
	jobs, err := s.run(0, nil, "squeue", "-h", "-o", "%A")
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.run(0, nil, "scancel", strings.Fields(jobs)...); err != nil {
		s.t.Fatal(err)
	}
	<-done
	if codes := exitCodes(out); !maps.Equal(codes, map[int]int{0: 75, 1: 75, 2: 75, 3: 75}) || !strings.Contains(out, "stopped early; the state is saved at step ") {
		s.t.Errorf("exit codes of the tasks: %v; the output of the job:\n%s", codes, out)
	}
}

var exitedTasks = regexp.MustCompile(`: tasks? ([0-9,-]+): Exited with exit code ([0-9]+)`)

// exitCodes gives the exit code of each task that srun reports. It reports those that end at about the same time in one
// line: "tasks 0-1,3: Exited with exit code 75".
func exitCodes(out string) map[int]int {
	codes := map[int]int{}
	for _, line := range exitedTasks.FindAllStringSubmatch(out, -1) {
		code, _ := strconv.Atoi(line[2])
		for _, span := range strings.Split(line[1], ",") {
			from, to, isSpan := strings.Cut(span, "-")
			first, _ := strconv.Atoi(from)
			last := first
			if isSpan {
				last, _ = strconv.Atoi(to)
			}
			for task := first; task <= last; task++ {
				codes[task] = code
			}
		}
	}
	return codes
}

// TestRenderedSlurm submits the script of launch --render slurm.
func TestRenderedSlurm(t *testing.T) {
	dir := smallJob(t, 3)
	s := newSlurm(t, 2, dir)
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"train", "--config", "run.yaml", "--output_dir", "own", "--nproc", "4"}
	if out, err := s.run(0, nil, exe, own...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	args := []string{"launch", "--render", "slurm", "--output", ".", "--render_name", "job", "--render_cpus", "4", "--nnodes", "2", "--nproc_per_node", "2", "--", exe, "train", "--config", "run.yaml", "--output_dir", "batch"}
	if out, err := s.run(0, nil, exe, args...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := s.run(0, nil, "sbatch", "--test-only", "job.sbatch"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := s.run(0, []string{"PATH=" + filepath.Dir(exe) + ":" + os.Getenv("PATH")}, "sbatch", "--parsable", "job.sbatch")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if jobs, err := s.run(0, nil, "squeue", "-h"); err == nil && jobs == "" {
			break
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "job-"+strings.TrimSpace(out)+".log")); err != nil || !strings.Contains(string(b), "model: batch/final_model") {
		t.Fatalf("%v\n%s", err, b)
	}
	if !bytes.Equal(weightsOf(t, dir, "own"), weightsOf(t, dir, "batch")) {
		t.Error("the weights differ from those of --nproc 4")
	}
}
