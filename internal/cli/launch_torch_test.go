package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/netns"
)

// torch returns the Python with PyTorch: TORCH_PYTHON, or python3. Without PyTorch it skips the test, unless
// TORCH_PYTHON is set.
func torch(t *testing.T) (python string) {
	t.Helper()
	python = os.Getenv("TORCH_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import torch.distributed.run").CombinedOutput(); err != nil {
		text := fmt.Sprintf("no PyTorch: %s -c 'import torch': %v %.80s. try: TORCH_PYTHON=/path/to/python", python, err, bytes.TrimSpace(out))
		if os.Getenv("TORCH_PYTHON") != "" {
			t.Fatal(text)
		}
		t.Skip("SKIPPED: ", text)
	}
	path, err := exec.LookPath(python)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// torchrun runs a command with torchrun's flags, by torchrun.
func torchrun(t *testing.T, python, dir string, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, python, append([]string{"-m", "torch.distributed.run"}, args...)...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("torchrun %q: %v\n%s%s", args, err, out, &errs)
	}
	return string(out)
}

// TestTorchrunEnvironment: the workers' environment is that of torchrun, for the same flags.
func TestTorchrunEnvironment(t *testing.T) {
	t.Parallel()
	python, dir := torch(t), t.TempDir()
	port := fmt.Sprint(freePorts(t))
	// In torchrun's workers the agent's store is at MASTER_PORT; ours make their own there.
	store := regexp.MustCompile(`(?m)^TORCHELASTIC_USE_AGENT_STORE=(True|False)$`)
	files := regexp.MustCompile(`(?m)^TORCHELASTIC_ERROR_FILE=.*/([^/_]+)_[^/]*/(attempt_\d+/\d+/error\.json)$`)
	random := regexp.MustCompile(`(?m)^(MASTER_PORT|TORCHELASTIC_RUN_ID)=.*$`)
	for _, c := range []struct {
		flags  []string
		env    []string
		random bool // port and run id
	}{
		{flags: []string{"--nnodes", "1", "--nproc-per-node", "4", "--master-port", port}},
		{flags: []string{"--standalone", "--nnodes=1", "--nproc_per_node=2"}, random: true},
		{flags: []string{"--nproc-per-node", "1", "--role", "trainer", "--max-restarts", "3", "--rdzv-id", "job7", "--master_port", port}, env: []string{"OMP_NUM_THREADS=3"}},
		{flags: []string{"--master-addr", "localhost", "--master-port", port}, env: []string{"PET_NPROC_PER_NODE=2", "PET_MAX_RESTARTS=1", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0"}},
	} {
		variables := func(out string) string {
			out = store.ReplaceAllString(out, "")
			out = files.ReplaceAllString(out, "TORCHELASTIC_ERROR_FILE=$1/$2")
			if c.random {
				out = random.ReplaceAllString(out, "$1=")
				out = regexp.MustCompile(`(?m)^(TORCHELASTIC_ERROR_FILE=)[^/]*/`).ReplaceAllString(out, "$1")
			}
			var lines []string
			for line := range strings.Lines(out) {
				name, _, _ := strings.Cut(line, "=")
				if regexp.MustCompile(`RANK|WORLD|MASTER|TORCH|OMP_NUM|ROLE_`).MatchString(name) && !strings.HasPrefix(name, "TRIREME_") && name != "TORCH_PYTHON" {
					lines = append(lines, line)
				}
			}
			slices.Sort(lines)
			return strings.Join(lines, "")
		}
		want := variables(torchrun(t, python, dir, c.env, append(slices.Clone(c.flags), "--no-python", "env")...))
		l := startTrireme(t, dir, c.env, append(append([]string{"launch"}, c.flags...), "--", "env")...)
		l.ends(t, 0)
		if got := variables(l.out.String()); got != want || strings.Count(got, "\n") < 16 {
			t.Errorf("%q:\n%s\ntorchrun has\n%s", c.flags, got, want)
		}
		if strings.Contains(l.out.String(), "USE_AGENT_STORE=True") {
			t.Error("a program would not make its store")
		}
	}
}

// TestTorchrunFiles: the files of --redirects and --tee are those of torchrun, and the lines on the terminal too.
func TestTorchrunFiles(t *testing.T) {
	t.Parallel()
	python := torch(t)
	const talk = "echo out $RANK; echo err $RANK >&2"
	for _, flags := range []string{"-t 3", "--tee 0:1,1:2 --redirects 1:3", "--redirects=1 --local-ranks-filter 1"} {
		tree := func(dir string) string {
			var all []string
			filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					b, _ := os.ReadFile(path)
					name, _ := filepath.Rel(dir, path)
					_, name, _ = strings.Cut(name, "/") // the run's directory
					all = append(all, fmt.Sprintf("%s: %q", name, b))
				}
				return err
			})
			return strings.Join(all, "\n")
		}
		lines := func(text string) string {
			ls := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			slices.Sort(ls)
			return strings.Join(ls, "\n")
		}
		theirs, ours := t.TempDir(), t.TempDir()
		args := append(strings.Fields(flags), "--nproc-per-node", "2", "--master-port", fmt.Sprint(freePorts(t)))
		out := torchrun(t, python, theirs, nil, append(append([]string{"--log-dir", theirs}, args...), "--no-python", "sh", "-c", talk)...)
		l := startTrireme(t, ours, nil, append(append([]string{"launch", "--log-dir", ours}, args...), "--", "sh", "-c", talk)...)
		l.ends(t, 0)
		if got, want := tree(ours), tree(theirs); got != want {
			t.Errorf("%s: files\n%s\ntorchrun has\n%s", flags, got, want)
		}
		if got, want := lines(l.out.String()), lines(out); got != want {
			t.Errorf("%s: output\n%s\ntorchrun has\n%s", flags, got, want)
		}
	}
}

// TestTorchScript: a script of PyTorch (DistributedDataParallel over gloo) runs unchanged, on one host and on two,
// also after a restart, and ends with the weights of torchrun.
func TestTorchScript(t *testing.T) {
	t.Parallel()
	python, dir := torch(t), t.TempDir()
	script, err := filepath.Abs("testdata/torch/ddp.py")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PYTHON_EXEC=" + python, "CUDA_VISIBLE_DEVICES="}
	result := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	torchrun(t, python, dir, env, "--nproc-per-node", "2", "--master-port", fmt.Sprint(freePorts(t)), script, "--out", "want.json")
	want := result("want.json")

	l := startTrireme(t, dir, env, "launch", "--nproc-per-node", "2", "--max-restarts", "1", "--master-port", fmt.Sprint(freePorts(t)), script, "--out", "one.json", "--fail-at", "3")
	l.ends(t, 0)
	if e := l.err.String(); !strings.Contains(e, "RuntimeError: no oars") || !strings.Contains(e, "restarting (1 of 1)") {
		t.Error(e)
	}
	if got := result("one.json"); got != want {
		t.Errorf("one host: %.200s\ntorchrun: %.200s", got, want)
	}

	t.Run("hosts", func(t *testing.T) { twoHosts(t, dir, env, script, func() bool { return result("two.json") == want }) })
}

// twoHosts runs the script on two hosts, elastic, with a failure.
func twoHosts(t *testing.T, dir string, env []string, script string, same func() bool) {
	hosts := netns.New(t, 2).Hosts
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ends, outs := make(chan error, 2), []*output{{}, {}}
	for i, h := range hosts {
		c := h.Command(ctx, exe, "launch", "--nnodes", "1:2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "node0:29400", "--rdzv-id", "two",
			"--rdzv-conf", "last_call_timeout=20", "--max-restarts", "1", "--secret-file", secret, "--tee", "3", script, "--out", "two.json", "--fail-at", "5")
		// gloo binds to the address of the host's name.
		c.Dir, c.Env = dir, append(append(os.Environ(), env...), "GLOO_SOCKET_IFNAME=eth0", "TMPDIR="+dir)
		c.Stdout, c.Stderr = outs[i], outs[i]
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ends <- c.Wait() }()
	}
	for range hosts {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if !same() {
		t.Error("the weights are not those of torchrun on one host")
	}
	text := outs[0].String() + outs[1].String()
	for _, want := range []string{"rank 0 of 2: loss", "rank 1 of 2: loss", "no oars", "restarting (1 of 1)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s\n%s", outs[0], outs[1])
	}
}
