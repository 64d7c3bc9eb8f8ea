package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"trireme/monitor"
)

// memoryGroup creates a control group with a limit of memory in bytes, including shared memory and page
// cache. There is no swap, so a process above the limit is killed.
func memoryGroup(bytes int64) (dir string, err error) {
	name := fmt.Sprintf("trireme-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	// In version 2 a group with processes cannot have children, so it is at the top.
	dir, limit, swap, none := filepath.Join("/sys/fs/cgroup", name), "memory.max", "memory.swap.max", "0"
	for _, g := range monitor.Cgroups("/") {
		if g.V1 {
			dir, limit, swap = filepath.Join(g.Dir, name), "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
			none = strconv.FormatInt(bytes, 10) // of memory and swap together
			break
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, limit), []byte(strconv.FormatInt(bytes, 10)), 0); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	_ = os.WriteFile(filepath.Join(dir, swap), []byte(none), 0) // is not there where swap is not counted
	return dir, nil
}

// removeGroup removes a control group once its processes have exited.
func removeGroup(dir string) {
	for range 500 {
		if os.Remove(dir) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// enter is a shell script that runs its arguments in a control group.
const enter = `echo $$ > "$0/cgroup.procs" && exec "$@"`

// within MIB CODE ARGS... runs trireme with all ranks under a memory limit, and compares its exit code.
func within(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: within MIB CODE ARGS...")
	}
	mib, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	dir, err := memoryGroup(mib << 20)
	ts.Check(err)
	defer removeGroup(dir)
	exe, err := exec.LookPath("trireme")
	ts.Check(err)
	code := "0"
	if err := ts.Exec("sh", append([]string{"-c", enter, dir, exe}, args[2:]...)...); err != nil {
		code = exitCode(err)
	}
	if code != args[1] {
		ts.Fatalf("trireme %q within %d MiB exits with %s, not %s", args[2:], mib, code, args[1])
	}
}

// memoryGroups reports whether within works here.
func memoryGroups() bool {
	dir, err := memoryGroup(64 << 20)
	if err != nil {
		return false
	}
	defer removeGroup(dir)
	return exec.Command("sh", "-c", enter, dir, "true").Run() == nil
}
