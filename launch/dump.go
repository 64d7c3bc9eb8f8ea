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

// crashVar is the variable with the descriptor of an unnamed file for the crash output of a worker.
const crashVar = "TRIREME_CRASH_FD"

type dump struct {
	mu        sync.Mutex
	dir, name string
	launcher  *os.File // takes crash output; nil: no launcher
	own       *os.File // takes it otherwise, once the directory is known
}

// newDump makes Go's runtime end a crash by SIGABRT, to distinguish it from code 2, with the stacks in the
// launcher's file, if any. SIGQUIT must be handled before: otherwise, after another signal, the runtime
// would send it to itself and wait.
func newDump(lookup func(string) (string, bool)) *dump {
	debug.SetTraceback("crash")
	d := &dump{launcher: inheritedFile(lookup, crashVar)}
	if d.launcher != nil {
		debug.SetCrashOutput(d.launcher, debug.CrashOptions{}) // on error the stack is only in the log
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
	f, err := d.open("crash", os.O_APPEND) // keep earlier crashes
	if err != nil {
		return // the stack goes to the terminal
	}
	d.own = f
	debug.SetCrashOutput(f, debug.CrashOptions{})
}

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

// stacksIn returns the pattern of the files that goroutines writes in dir.
func stacksIn(dir string) string {
	return (&dump{dir: dir, name: "*"}).path("goroutines")
}

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

// crash writes text to the crash file; path is "" if the launcher has it.
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
		os.Remove(d.dir) // fails unless empty
	}
	d.own.Close()
}

func stacks() []byte {
	for n := 1 << 20; ; n *= 2 {
		b := make([]byte, n)
		if got := runtime.Stack(b, true); got < n || n >= 64<<20 {
			return b[:got]
		}
	}
}
