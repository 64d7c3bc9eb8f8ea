package rundir_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"trireme/internal/rundir"
)

// TestMain also runs the test binary as a process that holds a lock until its input ends.
func TestMain(m *testing.M) {
	if dir := os.Getenv("RUNDIR_TEST_HOLD"); dir != "" {
		l, err := rundir.Acquire(dir)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if os.Getenv("RUNDIR_TEST_LEAVE") != "" { // to a child that outlives this process
			c := exec.Command("sleep", "1")
			c.ExtraFiles = []*os.File{l.File()}
			fmt.Println(c.Start())
			os.Exit(0)
		}
		fmt.Println("held")
		os.Stdin.Read(make([]byte, 1))
		_ = l
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Concurrent callers get different directories, numbered without gaps.
func TestMakeAtOnce(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "runs")
	const n = 20
	made := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if made[i], err = rundir.Make(parent, "go"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, p := range made {
		seen[p] = true
	}
	for i := range n {
		if p := filepath.Join(parent, fmt.Sprintf("go-%d", i+1)); !seen[p] {
			t.Errorf("nobody got %s", p)
		}
	}
}

func TestNewest(t *testing.T) {
	parent := t.TempDir()
	if got, err := rundir.Newest(filepath.Join(parent, "none"), "a"); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"a-1", "a-9", "a-10", "a-011", "a-b-12", "a", "a-", "a-0", "a--3", "ab-40"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := rundir.Newest(parent, "a"); got != filepath.Join(parent, "a-10") || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := rundir.Make(parent, "a"); got != filepath.Join(parent, "a-11") || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestHeldAndAside(t *testing.T) {
	parent := t.TempDir()
	for file, want := range map[string]string{
		"run.json": "", "config.yaml": "", "logs/rank-0000.log": "",
		"metrics.jsonl": "metrics.jsonl", "checkpoints/step-1/COMMIT": "checkpoints", "final_model/config.json": "final_model",
	} {
		dir := filepath.Join(parent, "x")
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
		if got := rundir.ExistingRun(dir); got != want {
			t.Errorf("with %s: %q", file, got)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir() // a run that ended before its first step
	if err := os.WriteFile(filepath.Join(dir, "metrics.jsonl"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := rundir.ExistingRun(dir); got != "" {
		t.Errorf("without a record: %q", got)
	}
	real, link := filepath.Join(parent, "real"), filepath.Join(parent, "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(real, "a"), 0o755), os.Mkdir(real+".1", 0o755), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	to, err := rundir.MoveAside(link)
	if err != nil || filepath.Base(to) != "real.2" {
		t.Errorf("%q, %v", to, err)
	}
	if st, err := os.Lstat(to); err != nil || !st.IsDir() {
		t.Errorf("%s is %v, %v: want the directory itself", to, st, err)
	}
	if _, err := os.Stat(filepath.Join(to, "a")); err != nil {
		t.Error(err)
	}
}

// A second process gets the owner of the lock; a killed owner frees it.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "RUNDIR_TEST_HOLD="+dir)
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4)
	if _, err := out.Read(line); err != nil || string(line) != "held" {
		t.Fatalf("%q, %v", line, err)
	}
	host, _ := os.Hostname()
	_, err = rundir.Acquire(dir)
	var busy *rundir.InUseError
	if !errors.As(err, &busy) || busy.Owner.PID != c.Process.Pid || busy.Owner.Host != host || time.Since(busy.Owner.Since) > time.Minute {
		t.Fatalf("%v", err)
	}
	if want := fmt.Sprintf("%s is in use by pid %d on %s since ", dir, c.Process.Pid, host); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := rundir.CheckFree(dir); !errors.As(err, &busy) {
		t.Errorf("Busy: %v", err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Fatal("the holder ended by itself")
	}
	l, err := rundir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if l.Previous.PID != c.Process.Pid {
		t.Errorf("left by %+v", l.Previous)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if err := rundir.CheckFree(dir); err != nil {
		t.Error(err)
	}
	if l, err = rundir.Acquire(dir); err != nil || l.Previous.PID != 0 {
		t.Fatalf("%+v, %v", l, err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// Acquire waits for a worker that is about to exit after its run has ended.
func TestLockOfEndingProcesses(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "RUNDIR_TEST_HOLD="+dir, "RUNDIR_TEST_LEAVE=1")
	if out, err := c.Output(); err != nil || string(out) != "<nil>\n" {
		t.Fatalf("%q, %v", out, err)
	}
	began := time.Now()
	if err := rundir.CheckFree(dir); err != nil {
		t.Errorf("Busy: %v", err)
	}
	l, err := rundir.Acquire(dir)
	if err != nil || time.Since(began) < 600*time.Millisecond {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// Only a regular file is accepted.
func TestLockOfNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "run.lock"), 0o644); err != nil {
		t.Skip(err)
	}
	if _, err := rundir.Acquire(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v", err)
	}
}

// A lock is acquired whatever its file holds, and only printable text of it is shown.
func FuzzOwner(f *testing.F) {
	f.Add([]byte(`{"pid":1,"host":"a\u001b[2J","since":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "run.lock"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := rundir.Acquire(dir)
		if err != nil {
			t.Fatal(err)
		}
		text := (&rundir.InUseError{Dir: "d", Owner: l.Previous}).Error()
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", text)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCheckPath(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for dir, want := range map[string]string{
		"": "", "runs/a": "", "/runs/a": "", "a:b": "", "runs/x://y": "", "~me/x": "", "a~": "",
		"s3://b/x":  `dir is "s3://b/x", which is not a directory of this machine`,
		"file:///x": `dir is "file:///x", which is not a directory of this machine`,
		"~":         `dir is "~": only a shell expands ~. try: /home/me`,
		"~/x":       `dir is "~/x": only a shell expands ~. try: /home/me/x`,
	} {
		got := ""
		if err := rundir.CheckPath("dir", dir); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q in place of %q", dir, got, want)
		}
	}
}
