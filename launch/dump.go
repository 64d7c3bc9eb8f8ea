package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// crashVar holds the number of a descriptor of a file without a name, which takes what Go's runtime
// writes when it ends a worker.
const crashVar = "TRIREME_CRASH_FD"

// dump is where a process's stacks go.
type dump struct {
	mu        sync.Mutex
	dir, name string
	launcher  *os.File // takes crashes; nil: there is no launcher of ours
	own       *os.File // takes them otherwise, once a directory is known
}

// newDump makes Go's runtime end this process by SIGABRT when it crashes, so that a crash is not
// taken for code 2, with its stack in the launcher's file, if there is one. SIGQUIT must be listened
// to before: the runtime would send it to itself, and wait, were the process to get a signal.
func newDump(lookup func(string) (string, bool)) *dump {
	debug.SetTraceback("crash")
	d := &dump{launcher: inheritedFile(lookup, crashVar)}
	if d.launcher != nil {
		debug.SetCrashOutput(d.launcher, debug.CrashOptions{}) // without it the stack is in the log only
	}
	return d
}

func (d *dump) setDir(dir, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dir, d.name = dir, name
}

func (d *dump) openCrashFile() {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.open("crash", os.O_APPEND) // a crash of an earlier start stays
	if err != nil {
		return // the terminal has the stack
	}
	d.own = f
	debug.SetCrashOutput(f, debug.CrashOptions{})
}

// open makes a file, and the directory.
func (d *dump) open(kind string, how int) (*os.File, error) {
	path := d.path(kind)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, how|os.O_CREATE|os.O_WRONLY, 0o644)
}

func (d *dump) path(kind string) string {
	if d.dir == "" {
		name := d.name
		if name == "" {
			name = strconv.Itoa(os.Getpid())
		}
		return filepath.Join(os.TempDir(), fmt.Sprintf("trireme-%s-%s.txt", kind, name))
	}
	return filepath.Join(d.dir, fmt.Sprintf("%s-%s.txt", kind, d.name))
}

// stacksIn is the pattern of the files that goroutines writes where dir is the directory.
func stacksIn(dir string) string {
	return (&dump{dir: dir, name: "*"}).path("goroutines")
}

// goroutines appends the stacks of all goroutines to a file.
func (d *dump) goroutines() (path string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.open("goroutines", os.O_APPEND)
	if err != nil {
		return "", fmt.Errorf("stacks of goroutines: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s, process %d\n\n%s\n", time.Now().UTC().Format(time.RFC3339Nano), os.Getpid(), stacks())
	if closed := f.Close(); err == nil {
		err = closed
	}
	return f.Name(), err
}

// crash keeps text; path is "" where the launcher has it.
func (d *dump) crash(text string) (path string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.launcher
	if f == nil {
		if f, err = d.open("crash", os.O_APPEND); err != nil {
			return "", err
		}
		path = f.Name()
		defer f.Close()
	}
	_, err = f.WriteString(text)
	return path, err
}

// close removes the file for a crash that did not come.
func (d *dump) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	debug.SetCrashOutput(nil, debug.CrashOptions{})
	if d.launcher != nil {
		d.launcher.Close()
	}
	if d.own == nil {
		return
	}
	if st, err := d.own.Stat(); err == nil && st.Size() == 0 {
		os.Remove(d.own.Name())
		os.Remove(d.dir) // unless it holds something
	}
	d.own.Close()
}

// stacks of all goroutines, as Go prints them.
func stacks() []byte {
	for n := 1 << 20; ; n *= 2 {
		b := make([]byte, n)
		if got := runtime.Stack(b, true); got < n || n >= 64<<20 {
			return b[:got]
		}
	}
}
