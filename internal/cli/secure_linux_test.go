package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"trireme/internal/netns"
)

const jobSecret = "a secret of a job, which no file has"

// secureRun writes the files of a run without an end.
func secureRun(t *testing.T, dir string) {
	t.Helper()
	var rows strings.Builder
	for i := range 24 {
		fmt.Fprintf(&rows, "{\"input_ids\": [%d, 5, 9, 13, 17, 21, 25, 29]}\n", i)
	}
	run := strings.Replace(stoppedRun, "log_every_n_steps: 1000", "log_every_n_steps: 1", 1)
	for name, text := range map[string]string{"run.yaml": run, "config.json": stoppedModel, "rows.jsonl": rows.String(), "eval.jsonl": rows.String(), "job.secret": jobSecret} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// socket is a line of /proc/net/tcp: a listening socket.
type socket struct {
	addr  string // as there: hexadecimal
	port  int
	inode string
}

// listening returns the listening sockets of a network namespace, from its /proc/net/tcp and tcp6.
func listening(table string) (all []socket) {
	for s := bufio.NewScanner(strings.NewReader(table)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 10 || f[3] != "0A" {
			continue
		}
		addr, port, _ := strings.Cut(f[1], ":")
		n, _ := strconv.ParseUint(port, 16, 16)
		all = append(all, socket{addr, int(n), f[9]})
	}
	return all
}

// steps waits until a run has n records.
func (r *ranks) steps(t *testing.T, dir string, n int) {
	t.Helper()
	for began := time.Now(); countLines(filepath.Join(dir, "out", "metrics.jsonl")) < n; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			for _, e := range r.errs {
				t.Log(e)
			}
			t.Fatalf("no %d steps after a minute", n)
		}
	}
}

// launchOn starts a launcher with one worker on each host.
func launchOn(ctx context.Context, t *testing.T, dir string, net *netns.Net, flags ...string) *ranks {
	t.Helper()
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	r := &ranks{}
	for i, h := range net.Hosts {
		args := append([]string{"launch", "--nnodes", "2", "--node_rank", strconv.Itoa(i), "--nproc_per_node", "1", "--master_addr", net.Hosts[0].Addr}, flags...)
		c := h.Command(ctx, exe, append(args, "--no_python", exe, "train", "--config", "run.yaml", "--output_dir", "out")...)
		e, end := &output{}, make(chan error, 1)
		c.Dir, c.Stdout, c.Stderr = dir, e, e
		c.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "HF_HUB_OFFLINE=1")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { end <- c.Wait() }()
		r.cmds, r.errs, r.ends = append(r.cmds, c), append(r.errs, e), append(r.ends, end)
	}
	return r
}

// A job on two hosts listens on the hosts' own addresses only.
func TestListeningSockets(t *testing.T) {
	net, dir := netns.New(t, 2), t.TempDir()
	secureRun(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	r := launchOn(ctx, t, dir, net, "--secret_file", "job.secret")
	defer func() {
		cancel()
		for _, end := range r.ends {
			<-end
		}
	}()
	r.steps(t, dir, 3)
	for i, h := range net.Hosts {
		table, err := h.Command(t.Context(), "cat", "/proc/net/tcp", "/proc/net/tcp6").Output()
		if err != nil {
			t.Fatal(err)
		}
		var own string
		for _, b := range bytes.Split([]byte(h.Addr), []byte(".")) {
			n, _ := strconv.Atoi(string(b))
			own = fmt.Sprintf("%02X", n) + own
		}
		all := listening(string(table))
		for _, s := range all {
			if s.addr != own {
				t.Errorf("host %d listens on %s, port %d, and its address is %s", i, s.addr, s.port, own)
			}
		}
		if len(all) == 0 {
			t.Errorf("host %d has no listening socket:\n%s", i, table)
		}
		t.Logf("host %d listens on %v", i, all)
	}
}

// Two hosts without a secret are refused, and with --insecure they are warned.
func TestInsecureHosts(t *testing.T) {
	net, dir := netns.New(t, 2), t.TempDir()
	secureRun(t, dir)
	r := launchOn(t.Context(), t, dir, net)
	for i, end := range r.ends {
		if err := <-end; exitCode(err) != "2" || !strings.Contains(r.errs[i].String(), "or --insecure on a network that no stranger reaches") {
			t.Errorf("host %d: code %s: %s", i, exitCode(err), r.errs[i])
		}
	}
	r = launchOn(t.Context(), t, dir, net, "--insecure")
	r.steps(t, dir, 3)
	for _, c := range r.cmds {
		c.Process.Signal(syscall.SIGTERM)
	}
	for i, end := range r.ends {
		err := <-end
		if exitCode(err) != "75" || strings.Count(r.errs[i].String(), "warning: insecure: connections between machines are not encrypted") != 1 {
			t.Errorf("host %d: code %s: %s", i, exitCode(err), r.errs[i])
		}
	}
}

// The secret is in no file, output or command line of a run.
func TestSecretStaysSecret(t *testing.T) {
	dir := t.TempDir()
	secureRun(t, dir)
	r := &ranks{}
	for rank, secret := range []string{"TRIREME_JOB_SECRET=" + jobSecret, "TRIREME_JOB_SECRET_FILE=job.secret"} {
		env := []string{secret, fmt.Sprint("RANK=", rank), "WORLD_SIZE=2", fmt.Sprint("LOCAL_RANK=", rank), "LOCAL_WORLD_SIZE=2", "MASTER_PORT=" + port(t, dir)}
		r.start(t, dir, env, []string{"train", "--config", "run.yaml", "--output_dir", "out"})
	}
	r.steps(t, dir, 3)
	for _, c := range r.cmds {
		for _, name := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.Process.Pid, name))
			if err != nil {
				t.Fatal(err)
			}
			own := bytes.Contains(b, []byte("TRIREME_JOB_SECRET="+jobSecret)) && name == "environ"
			if strings.Contains(string(b), jobSecret) && !own {
				t.Errorf("%s has the secret", name)
			}
		}
		c.Process.Signal(os.Interrupt)
	}
	for i, end := range r.ends {
		<-end
		if strings.Contains(r.errs[i].String(), jobSecret) {
			t.Errorf("rank %d printed the secret", i)
		}
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "job.secret" {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(jobSecret)) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil || files < 8 {
		t.Errorf("%d files: %v", files, err)
	}
}

// A rank of an older generation cannot join, and the job goes on.
func TestOlderGeneration(t *testing.T) {
	dir := t.TempDir()
	secureRun(t, dir)
	r := &ranks{}
	defer func() {
		for _, c := range r.cmds {
			c.Process.Kill()
		}
	}()
	start := func(rank, generation int, args ...string) {
		env := []string{"TRIREME_JOB_SECRET=" + jobSecret, fmt.Sprint("RANK=", rank), "WORLD_SIZE=2", fmt.Sprint("LOCAL_RANK=", rank), "LOCAL_WORLD_SIZE=2",
			"MASTER_PORT=" + port(t, dir), "TORCHELASTIC_RUN_ID=job", fmt.Sprint("TORCHELASTIC_RESTART_COUNT=", generation)}
		r.start(t, dir, env, append([]string{"train", "--config", "run.yaml", "--output_dir", "out", "--set", "parallel.backend=tcp"}, args...))
	}
	start(0, 3)
	start(1, 3)
	r.steps(t, dir, 3)
	start(1, 2, "--set", "parallel.timeout_seconds=0.5")
	if err := <-r.ends[2]; exitCode(err) != "76" || !strings.Contains(r.errs[2].String(), "another program or job answers") {
		t.Errorf("the rank of generation 2: code %s: %s", exitCode(err), r.errs[2])
	}
	r.steps(t, dir, countLines(filepath.Join(dir, "out", "metrics.jsonl"))+3)
	for i, c := range r.cmds[:2] {
		c.Process.Signal(syscall.SIGTERM)
		if err := <-r.ends[i]; exitCode(err) != "75" {
			t.Errorf("rank %d of generation 3: code %s: %s", i, exitCode(err), r.errs[i])
		}
	}
}
