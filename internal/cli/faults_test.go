package cli_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// killed ARGS... is signaled KILL ARGS...
func killed(ts *testscript.TestScript, neg bool, args []string) {
	signaled(ts, neg, append([]string{"KILL"}, args...))
}

// signaled SIGNALS CODE VICTIM FILE LINES ARGS... runs trireme, sends VICTIM (a rank, or launcher) the
// comma-separated signals once FILE has LINES more lines, and compares the exit code. No process and no
// shared memory may be left. The run's stdout and stderr go to the files out and err.
func signaled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 6 {
		ts.Fatalf("usage: signaled SIGNALS CODE VICTIM FILE LINES ARGS...")
	}
	var signals []syscall.Signal
	for name := range strings.SplitSeq(args[0], ",") {
		signals = append(signals, unix.SignalNum("SIG"+name))
	}
	args = args[1:]
	code, victim, file := args[0], args[1], ts.MkAbs(args[2])
	lines, err := strconv.Atoi(args[3])
	ts.Check(err)
	lines += countLines(file)
	before := sharedMemory()
	var out, errs bytes.Buffer
	exe, err := exec.LookPath("trireme")
	ts.Check(err)
	c := exec.Command(exe, args[4:]...)
	c.Dir, c.Env, c.Stdout, c.Stderr = ts.MkAbs("."), append(os.Environ(), "HOME="+ts.Getenv("HOME")), &out, &errs
	ts.Check(c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	patience := time.After(20 * time.Second)
	for countLines(file) < lines {
		select {
		case <-ended:
			ts.Fatalf("ended before it was killed:\n%s", &errs)
		case <-patience:
			c.Process.Kill()
			ts.Fatalf("%s has %d lines only:\n%s", file, countLines(file), &errs)
		case <-time.After(2 * time.Millisecond):
		}
	}
	ranks := children(c.Process.Pid)
	pid := c.Process.Pid
	if victim != "launcher" {
		pid = ranks[victim]
	}
	if pid == 0 {
		ts.Fatalf("no process of rank %s among %v", victim, ranks)
	}
	for i, sig := range signals {
		if i > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		ts.Check(syscall.Kill(pid, sig))
	}
	select {
	case err = <-ended:
	case <-patience:
		c.Process.Kill()
		ts.Fatalf("does not end:\n%s", &errs)
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), out.Bytes(), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("err"), errs.Bytes(), 0o644))
	if got := exitCode(err); err == nil || got != code {
		ts.Fatalf("exit code %s, not %s:\n%s", got, code, &errs)
	}
	for range 500 { // those whose parent is gone take a moment
		added := func(name string) bool { return !slices.Contains(before, name) }
		if !slices.ContainsFunc(values(ranks), alive) && !slices.ContainsFunc(sharedMemory(), added) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("left: of processes %v some, shared memory %v (before: %v)", ranks, sharedMemory(), before)
}

func values(m map[string]int) (v []int) {
	for _, pid := range m {
		v = append(v, pid)
	}
	return v
}

func countLines(file string) int {
	b, _ := os.ReadFile(file) // not there yet: none
	return bytes.Count(b, []byte("\n"))
}

// children returns the children of a process, by the rank in their environment.
func children(parent int) map[string]int {
	found := map[string]int{}
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range paths {
		pid, _ := strconv.Atoi(filepath.Base(p))
		if fields := stat(pid); len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		env, _ := os.ReadFile(p + "/environ")
		for _, kv := range strings.Split(string(env), "\x00") {
			if rank, ok := strings.CutPrefix(kv, "RANK="); ok {
				found[rank] = pid
			}
		}
	}
	return found
}

// stat returns the state, the parent and further fields of a process, or nil if it does not exist.
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func alive(pid int) bool {
	fields := stat(pid)
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

func sharedMemory() []string {
	entries, _ := os.ReadDir("/dev/shm")
	names := []string{}
	for _, e := range entries {
		if strings.Contains(e.Name(), "trireme") {
			names = append(names, e.Name())
		}
	}
	return names
}

// smallDisk DIR KIB mounts a disk of that size.
func smallDisk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: smalldisk DIR KIB")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(mount(dir, args[1]))
	ts.Defer(func() { exec.Command("umount", dir).Run() })
}

func mount(dir, kib string) error {
	return exec.Command("mount", "-t", "tmpfs", "-o", "size="+kib+"k", "tmpfs", dir).Run()
}

// condition evaluates [smalldisk] and [memorygroup]: whether smalldisk and within work here.
func condition(cond string) (bool, error) {
	if cond == "memorygroup" {
		return memoryGroups(), nil
	}
	if cond != "smalldisk" {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return false, err
	}
	defer os.Remove(dir)
	if mount(dir, "64") != nil {
		return false, nil
	}
	return true, exec.Command("umount", dir).Run()
}

// patch FILE OFFSET HEX overwrites bytes of a file.
func patch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: patch FILE OFFSET HEX")
	}
	offset, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	var b []byte
	_, err = fmt.Sscanf(args[2], "%x", &b)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_CREATE, 0o644)
	ts.Check(err)
	_, err = f.WriteAt(b, offset)
	ts.Check(err)
	ts.Check(f.Close())
}

// replace FILE OLD NEW replaces all OLD in a file, at least one.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace FILE OLD NEW")
	}
	b := ts.ReadFile(args[0])
	if !strings.Contains(b, args[1]) {
		ts.Fatalf("%s has no %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(b, args[1], args[2])), fs.FileMode(0o644)))
}
