package trackers

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pythonVar names a Python with the packages whose readers and servers the tests use.
const pythonVar = "TRACKERS_PYTHON"

// patient are limits for real servers on a busy machine.
var patient = limits{events: 4096, gather: 100 * time.Millisecond, request: time.Minute, retry: time.Second, flush: time.Minute}

// python returns that Python, which must have a package. Without the variable it skips the test.
func python(t *testing.T, pkg string) string {
	t.Helper()
	path := os.Getenv(pythonVar)
	if path == "" {
		t.Skipf("SKIPPED: %s is not set: a Python with %s (pip install -r .ci/python.txt)", pythonVar, pkg)
	}
	if out, err := exec.Command(path, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)", pkg).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s has no package %s: %v %s", pythonVar, path, pkg, err, out)
	}
	return path
}

// environment is for programs that would write to the home directory or to the network.
func environment(t *testing.T, more ...string) []string {
	return append(append(os.Environ(), "HOME="+t.TempDir(), "MLFLOW_DISABLE_TELEMETRY=true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false", "DO_NOT_TRACK=1", "WANDB_ERROR_REPORTING=false", "HF_HUB_OFFLINE=1", "PYTHONDONTWRITEBYTECODE=1"), more...)
}

// script runs a script of testdata and decodes its last line.
func script(t *testing.T, out any, env []string, python, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(python, append([]string{filepath.Join("testdata", name)}, args...)...)
	cmd.Env = env
	var errs strings.Builder
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, b, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), out); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, b)
	}
}

// tags are the tags of feed's records.
func tags() (all []string) {
	for _, v := range testRecord(1).Scalars() {
		all = append(all, v.Tag)
	}
	return append(all, "eval/loss", "eval/perplexity")
}

// freePort returns a port that was free.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// serve starts a server that ends with the test, and waits until url replies.
func serve(t *testing.T, url string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Signal(os.Interrupt)
		ended := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		ended.Stop()
	})
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if resp, err := http.Get(url); err == nil {
			if resp.Body.Close(); resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not reply", url)
		}
	}
}
