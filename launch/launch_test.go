package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) waitFor(t *testing.T, s string, n int) {
	t.Helper()
	for range 1000 {
		if strings.Count(b.String(), s) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %q in %q", s, b.String())
}

// showAll shows the output of all workers.
var showAll = Output{All: true, Tee: AllStreams(), Prefix: "[rank ${rank}] "}

func config(mode string, n int, out io.Writer) Config {
	return Config{Nproc: n, Command: []string{os.Args[0]}, Env: append(os.Environ(), modeVar+"="+mode), Stdout: out, Stderr: out,
		Grace: 300 * time.Millisecond, Signals: make(chan os.Signal)}
}

// A process that is stopped again and again, but runs between, is slow and not lost.
func TestStutter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("whether a process ran between two checks is not known here")
	}
	if code, err := Run(t.Context(), config("stutter", 2, io.Discard)); code != 0 || err != nil {
		t.Error(code, err)
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		mode string
		n    int
		code int
		rank int
		want string
	}{
		{"exit=3", 3, 3, 1, "rank 1 exited with code 3 after"},
		{"exit=3", 3, 3, 1, "2 other ranks stopped because of this. log: "},
		{"kill", 2, 137, 1, "rank 1 was killed (signal 9) after"},
		{"deaf", 2, 3, 1, "1 other rank stopped"},
		{"peerlost", 2, 9, 1, "rank 1 exited with code 9"},
		{"allexit=2", 3, 2, 0, "rank 0 exited with code 2"},
		{"blame", 3, 76, 1, "rank 1 is lost, hung or stopped (no answer for 1s) after"},
		{"still", 3, 76, 1, fmt.Sprintf("is stopped (signal %d) after", syscall.SIGSTOP)},
		{"blame", 3, 76, 1, ". 2 other ranks stopped because of this. log: "},
		{"blame=elsewhere", 3, 76, 7, "rank 7 is lost, hung or stopped (it is elsewhere) after"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			cfg := config(c.mode, c.n, io.Discard)
			cfg.LogDir = t.TempDir()
			if c.mode == "still" && runtime.GOOS != "linux" {
				t.Skip("the signal that stopped a process is not known here")
			}
			if c.mode == "peerlost" {
				cfg.Grace = 5 * time.Second
			}
			began := time.Now()
			code, err := Run(t.Context(), cfg)
			var f *Failure
			if !errors.As(err, &f) {
				t.Fatal(code, err)
			}
			if code != c.code || f.Code != c.code || f.Rank != c.rank || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("code %d, %v", code, err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if c.mode == "exit=3" {
				var b bytes.Buffer
				f.Report(&b)
				if !strings.Contains(b.String(), "last output of rank 1:\n") || !strings.Contains(b.String(), "  the last thing it said\n") || !strings.Contains(b.String(), "  on stdout\n") {
					t.Error(b.String())
				}
				if l, _ := os.ReadFile(filepath.Join(cfg.LogDir, "rank-0001.log")); !strings.Contains(string(l), "the last thing it said") {
					t.Errorf("log: %q", l)
				}
			}
		})
	}
}

// Processes of two ranks each.
func TestProcessFailures(t *testing.T) {
	for _, c := range []struct {
		mode, want string
		code, rank int
	}{
		{"kill", "the process of ranks 2 to 3 was killed (signal 9) after T. 2 other ranks stopped because of this. log: rank-0002.log", 137, 2},
		{"failed", "rank 3 exited with code 9 after T. 3 other ranks stopped because of this. log: rank-0002.log", 9, 3},
		{"within", "rank 3 is lost, hung or stopped (no answer from rank 3) after T. 3 other ranks stopped because of this. log: rank-0002.log", 76, 3},
		{"still", "the process of ranks 2 to 3 (pid N) is stopped (signal 19) after T. 2 other ranks stopped because of this. log: rank-0002.log", 76, 2},
	} {
		t.Run(c.mode, func(t *testing.T) {
			if c.mode == "still" && runtime.GOOS != "linux" {
				t.Skip("the signal that stopped a process is not known here")
			}
			cfg := config(c.mode, 2, io.Discard)
			cfg.Ranks, cfg.LogDir = 2, t.TempDir()
			code, err := Run(t.Context(), cfg)
			var f *Failure
			if !errors.As(err, &f) {
				t.Fatal(code, err)
			}
			got := regexp.MustCompile(`after [0-9.]+m?s`).ReplaceAllString(strings.ReplaceAll(err.Error(), cfg.LogDir+"/", ""), "after T")
			got = regexp.MustCompile(`pid [0-9]+ on [^)]*`).ReplaceAllString(got, "pid N")
			if code != c.code || f.Rank != c.rank || got != c.want {
				t.Errorf("code %d, rank %d\n%s\n%s", code, f.Rank, got, c.want)
			}
		})
	}
}

func TestCulprit(t *testing.T) {
	for _, c := range []struct {
		blames [][2]int // from, to
		rank   int
	}{
		{nil, -1},
		{[][2]int{{0, 1}}, 1},
		{[][2]int{{0, 1}, {1, 2}, {3, 0}}, 2},
		{[][2]int{{3, 0}, {0, 3}}, 3}, // a cycle: either
		{[][2]int{{2, 2}}, 2},
	} {
		words := []message{{From: 1, Ready: true}}
		for _, b := range c.blames {
			words = append(words, message{From: b[0], RootCause: &b[1]})
		}
		got := -1
		if w := rootCause(words); w != nil {
			got = *w.RootCause
		}
		if got != c.rank {
			t.Errorf("%v: %d", c.blames, got)
		}
	}
}

func TestJoin(t *testing.T) {
	var out buffer
	if code, err := Run(t.Context(), config("join", 4, &out)); code != 0 || err != nil || out.String() != "0 1 2 3\n" {
		t.Fatal(code, err, out.String())
	}
}

func TestOutput(t *testing.T) {
	var out, errs buffer
	cfg := config("talk", 3, &out)
	cfg.Stderr = &errs
	if code, err := Run(t.Context(), cfg); code != 0 || err != nil || out.String() != "out 0\n" || errs.String() != "err 0\n" {
		t.Fatal(code, err, out.String(), errs.String())
	}
	cfg.Output = showAll
	if code, err := Run(t.Context(), cfg); code != 0 || err != nil || !strings.Contains(out.String(), "[rank 2] out 2\n") || !strings.Contains(errs.String(), "[rank 0] err 0\n") {
		t.Fatal(code, err, out.String(), errs.String())
	}
}

// TestWorld checks the variables of the second host of two, and that its workers have the job's secret.
func TestWorld(t *testing.T) {
	var out buffer
	cfg := config("world", 2, &out)
	cfg.Output, cfg.Ranks = showAll, 3
	cfg.World = World{FirstRank: 4, Size: 10, Host: 1, Hosts: 2, MasterAddr: "127.0.0.1", MasterPort: 29400, RunID: "job", Generation: 5, MaxRestarts: 7, Secret: []byte("sixteen letters!")}
	if code, err := Run(t.Context(), cfg); code != 0 || err != nil {
		t.Fatal(code, err, out.String())
	}
	for _, want := range []string{
		"4 of 10, here 0 of 6, 3 ranks, host 1 of 2, 127.0.0.1:29400, job job 5/7, sixteen letters!\n",
		"7 of 10, here 3 of 6, 3 ranks, host 1 of 2, 127.0.0.1:29400, job job 5/7, sixteen letters!\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	for _, w := range []World{{FirstRank: 5, Size: 10}, {Host: 1}, {Hosts: 2}, {FirstRank: -1}} {
		cfg.World = w
		if code, err := Run(t.Context(), cfg); code != CodeUsage || err == nil {
			t.Errorf("%+v: %d, %v", w, code, err)
		}
	}
}

// TestFailing checks that the first failure is known before the other workers have ended.
func TestFailing(t *testing.T) {
	for mode, want := range map[string]int{"exit=3": 3, "kill": 137, "blame": CodePeerLost, "still": CodePeerLost} {
		cfg := config(mode, 3, io.Discard)
		var codes []int
		cfg.Failing = func(code int) { codes = append(codes, code) }
		if _, err := Run(t.Context(), cfg); err == nil || len(codes) != 1 || codes[0] != want {
			t.Errorf("%s: %v, %v", mode, codes, err)
		}
	}
}

// TestContext checks that a canceled context ends the workers, which is not their failure.
func TestContext(t *testing.T) {
	for _, mode := range []string{"sleep", "deaf=long", "stop=hang"} {
		var out buffer
		cfg := config(mode, 2, &out)
		cfg.Output = showAll
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			out.waitFor(t, "\n", 2)
			cancel(errors.New("host n1 is lost"))
		}()
		code, err := Run(ctx, cfg)
		if code != 1 || err == nil || err.Error() != "launch: host n1 is lost" {
			t.Errorf("%s: %d, %v", mode, code, err)
		}
		mustEnd(t, pids(t, out.String()))
	}
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(b), ") Z ")
}

func pids(t *testing.T, text string) []int {
	var all []int
	f := strings.Fields(text)
	for i := range f {
		if f[i] == "pid" {
			n, err := strconv.Atoi(f[i+1])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
	}
	return all
}

func mustEnd(t *testing.T, all []int) {
	t.Helper()
	for _, pid := range all {
		for i := 0; alive(pid); i++ {
			if i == 300 {
				t.Errorf("process %d still exists", pid)
				syscall.Kill(pid, syscall.SIGKILL)
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// A killed launcher's workers end, even those that only the kernel kills.
func TestLauncherKilled(t *testing.T) {
	for _, mode := range []string{"sleep", "untied"} {
		t.Run(mode, func(t *testing.T) {
			if _, err := os.Stat("/proc/self/stat"); err != nil && mode == "untied" {
				t.Skip("this system has no signal at a parent's death")
			}
			var out buffer
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), modeVar+"=launcher="+mode)
			c.Stdout = &out
			c.WaitDelay = time.Second
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			out.waitFor(t, "\n", 2)
			c.Process.Kill()
			c.Wait()
			all := pids(t, out.String())
			if len(all) != 2 {
				t.Fatal(out.String())
			}
			mustEnd(t, all)
		})
	}
}

// The pipe alone ends a worker.
func TestExitWithParent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out buffer
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), modeVar+"=sleep", parentVar+"=3")
	c.ExtraFiles = []*os.File{r}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	out.waitFor(t, "pid", 1)
	w.Close()
	began := time.Now()
	c.Wait()
	if took := time.Since(began); took > 2*time.Second {
		t.Fatal(took)
	}
	if _, err := ExitWithParent(func(string) (string, bool) { return "9999", true }, nil); err == nil {
		t.Fatal("a closed descriptor was accepted")
	}
}

// A worker's descendants end with it and do not block the launcher.
func TestGrandchild(t *testing.T) {
	var out buffer
	cfg := config("grandchild", 2, &out)
	cfg.Output = showAll
	code, err := Run(t.Context(), cfg)
	if code != 0 || err != nil {
		t.Fatal(code, err)
	}
	all := pids(t, out.String())
	if len(all) != 2 {
		t.Fatal(out.String())
	}
	mustEnd(t, all)
}

func TestFiles(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cfg := config("file", 2, io.Discard)
	cfg.Files = map[string]*os.File{"TEST_FD": w}
	code, err := Run(t.Context(), cfg)
	w.Close()
	got, _ := io.ReadAll(r)
	if code != 0 || err != nil || string(got) != "by descriptor" {
		t.Fatal(code, err, string(got))
	}
}

func TestNoProgram(t *testing.T) {
	cfg := config("", 2, io.Discard)
	cfg.Command = []string{"/no/such/program"}
	if code, err := Run(t.Context(), cfg); code != 1 || err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Fatal(code, err)
	}
	if code, err := Run(t.Context(), Config{}); code != CodeUsage || err == nil {
		t.Fatal(code, err)
	}
}

func TestTail(t *testing.T) {
	var tl tail
	if got := tl.lines(3); got != nil {
		t.Errorf("%q", got)
	}
	for i := range 100000 {
		fmt.Fprintf(&tl, "line %d\n", i)
	}
	if got := tl.lines(2); fmt.Sprint(got) != "[line 99998 line 99999]" {
		t.Errorf("%q", got)
	}
	tl.Write([]byte("10%\r20%\r30%\n"))
	if got := tl.lines(1); fmt.Sprint(got) != "[30%]" {
		t.Errorf("%q", got)
	}
	tl.Write([]byte("panic: no oars\n\ngoroutine 1 [running]:\n" + strings.Repeat("main.f()\n", 100)))
	if got := tl.lines(3); fmt.Sprintf("%q", got) != `["panic: no oars" "" "goroutine 1 [running]:"]` {
		t.Errorf("%q", got)
	}
}

func TestOutOfMemory(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"v2": {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.events": "low 0\noom 1\noom_kill 3\n", "sys/fs/cgroup/job/memory.max": "1073741824\n"},
		"v1": {"proc/self/cgroup": "5:devices:/\n4:memory:/elsewhere/job\n0::/\n", "sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\noom_kill 3\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"},
	} {
		dir := t.TempDir()
		for p, text := range files {
			p = filepath.Join(dir, p)
			os.MkdirAll(filepath.Dir(p), 0o755)
			os.WriteFile(p, []byte(text), 0o644)
		}
		c := readOOMUnder(dir)
		if yes, limit := c.since(oomCount{kills: 2, known: true}); !yes || limit != 1<<30 {
			t.Errorf("%s: %+v", name, c)
		}
		if yes, _ := c.since(c); yes {
			t.Errorf("%s: no new kill was counted", name)
		}
	}
	f := Failure{Rank: 2, Signal: syscall.SIGKILL, OutOfMemory: true, MemoryLimit: 128 << 30, Others: 7, Log: "logs/rank-0002.log", After: time.Second}
	if got, want := f.Error(), "rank 2 was killed (signal 9) after 1s: out of host memory, cgroup limit 128 GiB. 7 other ranks stopped because of this. log: logs/rank-0002.log"; got != want {
		t.Errorf("\n%s\n%s", got, want)
	}
}
