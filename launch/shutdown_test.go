package launch

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func nowhere(string) (string, bool) { return "", false }

// A signal during the call of Forward reaches the launcher.
func TestTakeLosesNothing(t *testing.T) {
	for i := range 100 {
		s := HandleSignals(nowhere, io.Discard, func(int) {})
		release := s.Graceful()
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * time.Microsecond)
		signals := make(chan os.Signal, 4)
		give := s.Forward(signals)
		select {
		case got := <-signals:
			if got != syscall.SIGUSR1 {
				t.Errorf("%v", got)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("round %d: the signal is lost", i)
		}
		give()
		release()
		s.Close()
	}
}

// The crash file of an earlier start is not overwritten; an empty one is removed.
func TestKeepCrash(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "crash-rank-0000.txt")
	for _, old := range []string{"", "panic: no oars\n"} {
		if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
		d := &dump{}
		d.setDir(dir, RankName(0))
		d.openCrashFile()
		d.close()
		got, err := os.ReadFile(path)
		if string(got) != old || os.IsNotExist(err) != (old == "") {
			t.Errorf("%q became %q, %v", old, got, err)
		}
		if old == "" {
			os.MkdirAll(dir, 0o755) // it was empty and removed
		}
	}
}

// Without LogDir, stacks are in os.TempDir, and the launcher says so.
func TestStacksWithoutLogDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path, err := (&dump{}).goroutines()
	if err != nil {
		t.Fatal(err)
	}
	var said buffer
	a := attempt{stderr: &said, workers: &workers{}}
	a.handle(syscall.SIGQUIT)
	var pattern string
	if _, err := fmt.Sscanf(said.String(), "stacks of all goroutines of the launcher and 0 ranks: %s\n", &pattern); err != nil {
		t.Fatal(err, said.String())
	}
	if ok, err := filepath.Match(pattern, path); !ok || err != nil {
		t.Errorf("%s is not one of %s (%v)", path, pattern, err)
	}
}
