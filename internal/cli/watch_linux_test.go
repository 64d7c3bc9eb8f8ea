package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shellOnTerminal is an interactive shell on a pseudo-terminal.
type shellOnTerminal struct {
	t      *testing.T
	master *os.File
	fd     int // of master, whose Fd would make it block
	cmd    *exec.Cmd
	mu     sync.Mutex
	out    strings.Builder
	read   int // bytes of out that wait has consumed
}

func openShell(t *testing.T, dir, name string, args ...string) *shellOnTerminal {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip("no "+name+" here:", err)
	}
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("no pseudo-terminal here:", err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	s := &shellOnTerminal{t: t, master: master, fd: fd, cmd: exec.Command(path, args...)}
	s.resize(80, 24)
	s.cmd.Dir, s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = dir, slave, slave, slave
	s.cmd.Env = append(os.Environ(), "TERM=xterm", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "NO_COLOR=1", "PS1=ready> ", "HOME="+dir, "ENV=", "HISTFILE=")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			s.mu.Lock()
			s.out.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	s.wait("ready> ")
	return s
}

// wait waits for text after the text of the last wait.
func (s *shellOnTerminal) wait(text string) {
	s.t.Helper()
	var rest string
	for range 1000 {
		s.mu.Lock()
		rest = s.out.String()[s.read:]
		if at := strings.Index(rest, text); at >= 0 {
			s.read += at + len(text)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("no %q in %q", text, rest)
}

func (s *shellOnTerminal) typed(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shellOnTerminal) resize(columns, rows int) {
	if err := unix.IoctlSetWinsize(s.fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}); err != nil {
		s.t.Fatal(err)
	}
}

// settings are the terminal's flags. A shell that edits lines has its own at the prompt.
func (s *shellOnTerminal) settings() unix.Termios {
	v, err := unix.IoctlGetTermios(s.fd, unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *v
}

// watcher returns the process id of the watch that the shell runs.
func (s *shellOnTerminal) watcher() int {
	s.t.Helper()
	for range 500 {
		group, err := unix.IoctlGetInt(s.fd, unix.TIOCGPGRP)
		if err == nil && group != s.cmd.Process.Pid {
			return group
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatal("the shell runs nothing")
	return 0
}

// stty runs stty in the shell and returns the settings of the terminal that programs get.
func (s *shellOnTerminal) stty(n int) string {
	s.t.Helper()
	s.typed(fmt.Sprintf("stty -g > stty.%d; echo stty$((%d+0))\r", n, n))
	s.wait(fmt.Sprintf("stty%d", n))
	s.wait("ready> ")
	b, err := os.ReadFile(filepath.Join(s.cmd.Dir, fmt.Sprintf("stty.%d", n)))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// finishedRun trains a few steps in dir/out.
func finishedRun(t *testing.T, exe, dir string) {
	t.Helper()
	rows := strings.Repeat(`{"input_ids": [1, 5, 9, 13, 17, 21, 25, 29]}`+"\n", 12)
	for name, text := range map[string]string{"config.json": stoppedModel, "run.yaml": stoppedRun, "rows.jsonl": rows, "eval.jsonl": rows} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(exe, "train", "--config", "run.yaml", "--output_dir", "out", "--max_steps", "3")
	c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A watch leaves the terminal as it found it, however it ends. Keys and a new size take effect.
func TestWatchOnATerminal(t *testing.T) {
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	finishedRun(t, exe, dir)
	for _, shell := range [][]string{{"sh", "-i"}, {"bash", "--norc", "--noprofile", "-i"}} {
		t.Run(shell[0], func(t *testing.T) {
			s := openShell(t, dir, shell[0], shell[1:]...)
			before := s.stty(0)
			check := func(n int) {
				t.Helper()
				s.typed("\r")
				s.wait("ready> ")
				if got := s.stty(n); got != before {
					t.Errorf("%d: the settings of the terminal are %s, not %s", n, got, before)
				}
			}
			watch := func() {
				t.Helper()
				s.typed("trireme watch out\r")
				s.wait("step   3/3")
				s.wait("q quit")
				for range 500 { // the guard of a watch that was killed comes first
					if s.settings().Lflag&(unix.ICANON|unix.ECHO) == 0 {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				t.Error("the watch waits for whole lines or echoes")
			}

			watch() // keys and a resize
			s.typed("?")
			s.wait("quit; the run continues")
			s.typed("x")
			s.wait("speed")
			s.typed("\t")
			s.wait("chart")
			s.typed("\x1b[C")
			s.wait("lr ")
			s.typed("5")
			s.wait("notes")
			s.typed("1")
			s.wait("speed")
			s.resize(40, 12)
			s.wait(" ms …")
			s.resize(80, 24)
			s.wait("done after")
			s.typed("q")
			s.wait("ready> ")
			check(1)

			watch() // Ctrl-Z and fg
			s.typed("\x1a")
			s.wait("ready> ")
			check(2)
			s.typed("fg\r")
			s.wait("q quit")
			s.typed("?")
			s.wait("quit; the run continues")
			s.typed("q")
			s.wait("ready> ")
			check(3)

			watch() // Ctrl-C
			s.typed("\x03")
			s.wait("ready> ")
			s.typed("echo code$?\r")
			s.wait("code130")
			check(4)

			watch()
			syscall.Kill(-s.watcher(), syscall.SIGKILL) // the whole job
			s.wait("ready> ")
			time.Sleep(300 * time.Millisecond)
			check(5)

			watch() // a guard waits while a shell has its own settings; it leaves those of the next watch
			syscall.Kill(-s.watcher(), syscall.SIGKILL)
			s.wait("ready> ")
			watch()
			time.Sleep(2200 * time.Millisecond) // longer than a guard waits
			if s.settings().Lflag&(unix.ICANON|unix.ECHO) != 0 {
				t.Error("the guard of a killed watch changed the settings of the next")
			}
			s.typed("q")
			s.wait("ready> ")
			check(6)

			watch() // the terminal is closed
			pid := s.watcher()
			s.master.Close()
			for range 2000 {
				// The shell is gone, so another process may reap it late.
				state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				if err != nil || strings.Contains(string(state), ") Z ") {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			t.Errorf("the watch outlives its terminal by 20 s:\n%s", status)
		})
	}
}

// A detached run outlives the terminal that started it, and a watch changes nothing of it.
func TestDetachedRun(t *testing.T) {
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	finishedRun(t, exe, dir)
	s := openShell(t, dir, "sh", "-i")
	s.typed("ulimit -t 60\r") // seconds of processor time of a process: the run ends even if this test is killed
	s.wait("ready> ")
	s.typed("trireme train --config run.yaml --output_dir bg --max_steps 1000000 --nproc 2 --detach\r")
	s.wait("watch: trireme watch bg")
	s.wait("kill ")
	s.wait(" (saves")
	s.mu.Lock()
	text := s.out.String()
	s.mu.Unlock()
	var pid int
	if _, rest, ok := strings.Cut(text, "stop:  kill "); !ok {
		t.Fatal(text)
	} else if pid, err = strconv.Atoi(strings.Fields(rest)[0]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	s.wait("ready> ")
	s.typed("trireme watch bg\r")
	s.wait("running")
	s.wait("q quit")
	s.typed("\x03")
	s.wait("ready> ")
	s.master.Close() // SIGHUP
	s.cmd.Wait()
	records := filepath.Join(dir, "bg", "metrics.jsonl")
	had := countLines(records)
	for end := time.Now().Add(time.Minute); countLines(records) < had+10; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the run ended with its terminal")
		}
	}
	syscall.Kill(pid, syscall.SIGTERM)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if b, _ := os.ReadFile(filepath.Join(dir, "bg", "run.json")); strings.Contains(string(b), `"exit": 75`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the run does not stop")
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "bg", "logs", "train.log"))
	if err != nil || !strings.Contains(string(b), "stopped early; the state is saved") {
		t.Errorf("the log has %s, %v", b, err)
	}
}
