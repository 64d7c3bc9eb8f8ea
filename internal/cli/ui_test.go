package cli_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestUI checks that trireme ui prints its address, serves there, and ends promptly at Ctrl-C, also with an open live
// connection.
func TestUI(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(`{"step":1,"loss":2.5}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("trireme", "ui", dir, "--addr", "127.0.0.1:0")
	c.Env = append(os.Environ(), "BROWSER=false", "XDG_CACHE_HOME="+t.TempDir())
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var messages strings.Builder
	c.Stderr = &messages
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill() // if the test fails before the end
	line, err := bufio.NewReader(out).ReadString('\n')
	address := strings.TrimSpace(line)
	if err != nil || !strings.HasPrefix(address, "http://127.0.0.1:") || !strings.HasSuffix(address, "/") {
		t.Fatalf("%q: %v: %s", line, err, messages.String())
	}
	res, err := http.Get(address + "api/runs")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != 200 || !strings.Contains(string(b), `"loss":2.5`) {
		t.Errorf("status %d, %v: %s", res.StatusCode, err, b)
	}
	live, err := http.Get(address + "api/live")
	if err != nil {
		t.Fatal(err)
	}
	defer live.Body.Close()
	start := time.Now()
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // of the signal
	if d := time.Since(start); d > 2*time.Second || c.ProcessState.ExitCode() != 130 {
		t.Errorf("after Ctrl-C it ended with %v after %v: %s", c.ProcessState, d, messages.String())
	}
}
