package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSignals(t *testing.T) {
	for _, c := range []struct {
		mode    string
		signals []syscall.Signal
		code    int
		out     string
	}{
		{"stop", []syscall.Signal{syscall.SIGINT}, CodeStopped, "interrupt"},
		{"stop", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, CodeStopped, "terminated"},
		{"stop", []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1}, CodeStopped, "terminated"},
		{"stop=hang", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, CodeInterrupted, "interrupt"},
		{"plain", []syscall.Signal{syscall.SIGTERM}, 143, ""},
		{"plain", []syscall.Signal{syscall.SIGUSR1}, 143, ""},
		{"stop", []syscall.Signal{syscall.SIGQUIT, syscall.SIGTERM}, CodeStopped, "terminated"},
	} {
		t.Run(fmt.Sprint(c.mode, c.signals), func(t *testing.T) {
			var out buffer
			cfg := config(c.mode, 2, &out)
			cfg.Output = showAll
			signals := make(chan os.Signal)
			cfg.Signals = signals
			cfg.LogDir = t.TempDir()
			cfg.Env = append(cfg.Env, "LAUNCH_TEST_DIR="+cfg.LogDir)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				out.waitFor(t, "ready", 2)
				for _, s := range c.signals {
					select {
					case signals <- s:
					case <-time.After(time.Second):
					}
					if s == syscall.SIGQUIT {
						waitForFiles(t, 2, filepath.Join(cfg.LogDir, "goroutines-rank-*.txt"))
					} else if c.out != "" && s != syscall.SIGHUP {
						out.waitFor(t, c.out, 2)
					}
				}
			}()
			code, err := Run(t.Context(), cfg)
			<-sent
			if killed := errors.Is(err, ErrKilled); code != c.code || killed != (code == CodeInterrupted) || err != nil && !killed || !strings.Contains(out.String(), c.out) {
				t.Fatal(code, err, out.String())
			}
		})
	}
}

func waitForFiles(t *testing.T, n int, pattern string) {
	t.Helper()
	for range 1000 {
		if got, _ := filepath.Glob(pattern); len(got) == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %d of %s", n, pattern)
}

// A worker that does not acknowledge a signal, or does not end after it, is named and killed.
func TestIgnoredSignal(t *testing.T) {
	for _, c := range []struct {
		mode string
		want string
	}{
		{"stopped", ") did not react to SIGTERM within 300ms after"},
		{"stop=hang", ") did not end within 600ms of SIGTERM after"},
	} {
		var out buffer
		cfg := config(c.mode, 2, &out)
		cfg.Output, cfg.StopGrace, cfg.StoppedTimeout = showAll, 600*time.Millisecond, time.Minute
		signals := make(chan os.Signal, 1)
		cfg.Signals = signals
		go func() {
			out.waitFor(t, "ready", 2)
			signals <- syscall.SIGTERM
		}()
		code, err := Run(t.Context(), cfg)
		if code != CodePeerLost || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d, %v", c.mode, code, err)
		}
	}
}

// After a signal before the start, no workers start.
func TestSignalBefore(t *testing.T) {
	cfg := config("sleep", 2, io.Discard)
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	cfg.Signals = signals
	if code, err := Run(t.Context(), cfg); code != CodeInterrupted || err != nil {
		t.Error(code, err)
	}
}

// A crash has code 134, its stack in a file and one line on the terminal.
func TestCrash(t *testing.T) {
	for mode, want := range map[string]string{
		"panic": "panic: no oars", "fatal": "fatal error: sync: unlock of unlocked mutex",
		"segv": "signal from another process: segmentation fault", "abort": "signal from another process: aborted",
	} {
		var out buffer
		cfg := config("crash="+mode, 2, &out)
		cfg.LogDir = t.TempDir()
		path := filepath.Join(cfg.LogDir, "crash-rank-0000.txt")
		if err := os.WriteFile(path, []byte("earlier\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, err := Run(t.Context(), cfg)
		var f *Failure
		if !errors.As(err, &f) {
			t.Fatal(mode, code, err)
		}
		stack, _ := os.ReadFile(path)
		if code != CodeCrashed || f.Rank != 0 || f.Crash != want || f.Stack != path || !strings.HasPrefix(string(stack), "earlier\n") || !strings.Contains(string(stack), "goroutine ") {
			t.Errorf("%s: code %d, %v; %d bytes of stack", mode, code, err, len(stack))
		}
		if f.Report(&out); strings.Contains(out.String(), "goroutine ") || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("%s: the terminal has %q", mode, out.String())
		}
		if f.After > 2*time.Second {
			t.Errorf("%s: after %v", mode, f.After)
		}
	}
}

func TestEarlyCrash(t *testing.T) {
	cfg := config("early", 2, io.Discard)
	cfg.LogDir = t.TempDir()
	if code, err := Run(t.Context(), cfg); code != CodeCrashed || err == nil || !strings.HasPrefix(err.Error(), "rank 0 crashed (panic: no boat) after ") {
		t.Error(code, err)
	}
}
