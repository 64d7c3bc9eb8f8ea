package launch

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"trireme/internal/numa"
	"trireme/rendezvous"
)

// workers are the processes of one attempt. Each is sent on ended when it ends.
type workers struct {
	all     []*worker
	ended   chan *worker // buffered for all
	release chan struct{}
	wg      sync.WaitGroup
}

type worker struct {
	rank, ranks   int // the first rank, and how many
	local         int // index among the workers of this machine
	cmd           *exec.Cmd
	tail          tail
	pipes         []*os.File     // read ends of its output
	read          sync.WaitGroup // the goroutines that read them
	log           *os.File
	files         [2]*os.File // of Output
	errorFile     string      // TORCHELASTIC_ERROR_FILE, or ""
	crash         *os.File    // crash output of the Go runtime; nil: not kept
	gone          atomic.Bool // its pid may be reused
	stoppedChecks int         // consecutive checks at which it was stopped, without running between them
	ticks         int64       // processor time at the last check

	// Set before the worker is sent on ended.
	state *os.ProcessState
	at    time.Time
}

// link has the files that the workers of one attempt inherit.
type link struct {
	alive, aliveW     *os.File // closed when this process ends
	reports, reportsW *os.File // messages of workers
	secret            *os.File // nil: in the workers' environment
}

// newLink makes a link with a secret for the workers of one machine, or the job's.
func newLink(w *World) (l link, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	secret := w.Secret
	if secret == nil && w.Hosts == 1 {
		secret = []byte(rand.Text())
	}
	if secret != nil {
		if l.secret, err = secretFile(secret); err != nil {
			return l, fmt.Errorf("launch: %w", err)
		}
	}
	if l.alive, l.aliveW, err = os.Pipe(); err != nil {
		return l, fmt.Errorf("launch: %w", err)
	}
	if l.reports, l.reportsW, err = os.Pipe(); err != nil {
		return l, fmt.Errorf("launch: %w", err)
	}
	return l, nil
}

func secretFile(secret []byte) (*os.File, error) {
	f, err := unnamedFile("trireme-secret")
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(secret); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (l link) close() {
	for _, f := range []*os.File{l.alive, l.aliveW, l.reports, l.reportsW, l.secret} {
		if f != nil {
			f.Close()
		}
	}
}

// start starts all workers, or none. The thread that starts them must live until they have ended, because
// PR_SET_PDEATHSIG refers to the parent thread.
func start(c Config, l link, stdout, stderr io.Writer) (*workers, error) {
	w := &workers{ended: make(chan *worker, c.Nproc), release: make(chan struct{})}
	started := make(chan error)
	w.wg.Go(func() {
		runtime.LockOSThread()
		var err error
		if c.Processors == nil {
			defer runtime.UnlockOSThread()
		} else { // the thread ends with this goroutine; the process's first one only sleeps, and has its processors again
			var allowed numa.CPUs
			if allowed, err = numa.Allowed(); err != nil {
				started <- err
				return
			}
			defer numa.SetThread(allowed)
		}
		for local := range c.Nproc {
			if c.Processors != nil {
				if err = numa.SetThread(c.Processors[local]); err != nil { // which the worker inherits
					break
				}
			}
			var one *worker
			if one, err = startOne(c, l, c.env(local), stdout, stderr); err != nil {
				break
			}
			w.all = append(w.all, one)
		}
		started <- err
		<-w.release
	})
	err := <-started
	for _, one := range w.all {
		w.wg.Go(func() {
			one.state, _ = one.cmd.Process.Wait()
			one.gone.Store(true)
			one.at = time.Now()
			syscall.Kill(-one.cmd.Process.Pid, syscall.SIGKILL) // its descendants
			w.ended <- one
		})
	}
	if err != nil {
		w.signal(syscall.SIGKILL)
		for range w.all {
			<-w.ended
		}
		w.finish()
		return nil, err
	}
	return w, nil
}

func startOne(c Config, l link, e rendezvous.Env, stdout, stderr io.Writer) (_ *worker, err error) {
	w := &worker{rank: e.Rank, ranks: e.Ranks, local: e.LocalRank / max(1, e.Ranks)}
	w.cmd = exec.Command(c.Command[0], c.Command[1:]...)
	w.cmd.Dir = c.Dir
	w.cmd.SysProcAttr = processAttributes()

	defer func() {
		if err != nil {
			w.close()
		}
	}()
	add := e.Variables()
	inherit := func(name string, f *os.File) {
		add = append(add, name+"="+strconv.Itoa(3+len(w.cmd.ExtraFiles)))
		w.cmd.ExtraFiles = append(w.cmd.ExtraFiles, f)
	}
	inherit(parentVar, l.alive)
	inherit(reportVar, l.reportsW)
	if l.secret != nil {
		inherit(rendezvous.SecretFDVar, l.secret)
	}
	if c.LogDir != "" {
		if w.crash, err = unnamedFile("trireme-crash"); err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
		inherit(crashVar, w.crash)
	}
	if c.Memory != nil {
		inherit(memoryVar, c.Memory)
	}
	if e.LocalRank == 0 {
		for _, name := range sortedNames(c.Files) {
			inherit(name, c.Files[name])
		}
	}
	// The workers' own store listens at MASTER_PORT, not this launcher's.
	add = append(add, "ROLE_NAME="+c.role(), "TORCHELASTIC_USE_AGENT_STORE=False")
	if c.Processors != nil {
		// The runtime would count the worker's processors, but ranks divide those of all ranks (device.threads).
		n := min(runtime.GOMAXPROCS(0), c.Nproc*len(c.Processors[w.local]))
		add = append(add, "GOMAXPROCS="+strconv.Itoa(n))
	}
	if dir := c.Output.workerDir(e); dir != "" {
		w.errorFile = filepath.Join(dir, errorFileName)
		add = append(add, errorFileVar+"="+w.errorFile)
	}
	base := c.Env
	if base == nil {
		base = os.Environ()
	}
	w.cmd.Env = environ(base, add)

	if w.files, err = c.Output.files(e); err != nil {
		return nil, err
	}
	if path := c.logPath(e.Rank); path != "" {
		if w.log, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
	}
	var ends [2]*os.File // the worker's ends
	defer func() {
		for _, f := range ends {
			f.Close() // no-op if nil
		}
	}()
	for i := range ends {
		var r *os.File
		if r, ends[i], err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
		w.pipes = append(w.pipes, r)
	}
	w.cmd.Stdout, w.cmd.Stderr = ends[0], ends[1]
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("launch: %s: %w", rankNames(e.Rank, e.Ranks), err)
	}
	for i, out := range []io.Writer{stdout, stderr} {
		o := outlets{tail: &w.tail, show: c.shows(e, i, out)}
		for _, f := range []*os.File{w.log, w.files[i]} {
			if f != nil {
				o.logs = append(o.logs, f)
			}
		}
		w.read.Go(func() { o.pump(w.pipes[i]) })
	}
	return w, nil
}

func sortedNames(m map[string]*os.File) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

func (w *workers) signal(s syscall.Signal) {
	for _, one := range w.all {
		one.signal(s)
	}
}

func (w *worker) has(rank int) bool { return rank >= w.rank && rank < w.rank+w.ranks }

func (w *worker) signal(s syscall.Signal) {
	if !w.gone.Load() {
		syscall.Kill(-w.cmd.Process.Pid, s)
	}
}

// readRest waits for the remaining output of an ended worker, up to a second, because an escaped descendant
// may keep it open.
func (w *worker) readRest() {
	read := make(chan struct{})
	go func() {
		w.read.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(time.Second):
		w.close()
		<-read
	}
}

func (w *worker) close() {
	for _, r := range w.pipes {
		r.Close()
	}
	for _, f := range []*os.File{w.log, w.files[0], w.files[1], w.crash} {
		if f != nil {
			f.Close()
		}
	}
}

// finish releases the workers' resources after all have ended.
func (w *workers) finish() {
	close(w.release)
	for _, one := range w.all {
		one.readRest()
		one.close()
	}
	w.wg.Wait()
}
