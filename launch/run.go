package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrKilled says that a second SIGINT ended the job at once.
var ErrKilled = errors.New("launch: ended at once, as Ctrl-C was pressed twice")

// Run launches a job and returns when all its workers have ended and their output has been
// read. The code is what this process should exit with: 0, CodeStopped, CodeInterrupted or
// CodeTerminated for a signal that was handed on, or that of the first worker that failed, whose
// *Failure is then the error. When ctx ends the workers are stopped as by SIGTERM, with Grace,
// and the error is ctx's.
func Run(ctx context.Context, cfg Config) (code int, err error) {
	if err := cfg.Validate(); err != nil {
		return CodeUsage, err
	}
	if cfg.LogDir != "" {
		if err := os.MkdirAll(cfg.LogDir, 0o755); err != nil {
			return 1, fmt.Errorf("launch: %w", err)
		}
	}
	var mu sync.Mutex
	stdout, stderr := locked{&mu, cfg.Stdout}, locked{&mu, cfg.Stderr}
	if cfg.Stdout == nil {
		stdout.w = os.Stdout
	}
	if cfg.Stderr == nil {
		stderr.w = os.Stderr
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.RunID == "" {
		cfg.RunID = randomID()
	}
	if cfg.StoppedTimeout <= 0 {
		cfg.StoppedTimeout = time.Second
	}
	if cfg.StopGrace <= 0 {
		cfg.StopGrace = 10 * time.Minute
	}

	for n := 0; ; n++ {
		a := attempt{cfg: cfg, number: n, stderr: stderr, began: time.Now()}
		select {
		case sig := <-cfg.Signals: // before there are workers
			if a.requestsStop(sig.(syscall.Signal)) {
				return a.stopCode(), nil
			}
		default:
		}
		if err := a.run(ctx, stdout, stderr); err != nil {
			return 1, err
		}
		switch {
		case a.killed:
			return CodeInterrupted, ErrKilled
		case ctx.Err() != nil:
			return 1, fmt.Errorf("launch: %w", context.Cause(ctx))
		case a.failure == nil:
			return a.code, nil
		case a.asked != 0 || n == cfg.MaxRestarts || !a.failure.retry():
			a.failure.Restarts = n
			return a.failure.Code, a.failure
		}
		fmt.Fprintf(stderr, "%v. restarting, %d of %d\n", a.failure, n+1, cfg.MaxRestarts)
	}
}

// attempt is all workers' life from start to end, once.
type attempt struct {
	cfg    Config
	number int
	stderr io.Writer
	began  time.Time

	workers     *workers
	asked       syscall.Signal // the first signal to stop that was handed on
	killed      bool           // by a second SIGINT
	failed      []*worker      // in the order of their ends, before others were stopped for it
	stopped     int            // ranks that others' failure stopped
	accusations []message      // by which workers blame others
	ready       map[int]bool   // ranks that listen to signals
	acked       map[int]bool   // ranks that have heard one
	code        int            // if none failed
	failure     *Failure
}

func (a *attempt) run(ctx context.Context, stdout, stderr io.Writer) error {
	port := a.cfg.MasterPort
	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
	}
	l, err := newLink(max(a.cfg.Nodes, 1) == 1)
	if err != nil {
		return err
	}
	defer l.close()
	oom := readOOM()
	if a.workers, err = start(a.cfg, l, a.number, port, a.cfg.RunID, stdout, stderr); err != nil {
		return err
	}
	defer a.workers.finish()
	heard := make(chan message)
	go readMessages(l.words, heard)
	l.wordsW.Close() // the workers have theirs
	a.ready, a.acked = map[int]bool{}, map[int]bool{}
	a.watch(ctx, heard)
	l.words.SetReadDeadline(time.Now().Add(time.Second)) // a descendant that escaped may hold the other end
	for w := range heard {
		a.receive(w)
	}
	first, blamed := a.first(), rootCause(a.credible())
	alike := false // first ended because another did
	if first != nil {
		code, _ := a.outcome(first)
		alike = code == CodePeerLost
	}
	switch {
	case a.killed:
	case blamed != nil && (first == nil || alike):
		a.failure = a.describeLost(blamed)
	case alike && a.asked != 0: // a rank that had not begun has ended at once
		a.code = a.stopCode()
	case first != nil:
		a.failure = a.describe(first, oom)
	}
	return nil
}

// settle is how long a failure waits for its company, such as rank 0, which failed alike. One
// that is another rank's fault waits for that rank for half of the grace.
const settle = 150 * time.Millisecond

// watch returns when all workers have ended.
func (a *attempt) watch(ctx context.Context, heard <-chan message) {
	var stop, kill, heed, end <-chan time.Time
	look := time.NewTicker(a.cfg.StoppedTimeout / looks)
	defer look.Stop()
	known := false // whose fault it is
	done := ctx.Done()
	stopping := false
	for running := len(a.workers.all); running > 0; {
		select {
		case w := <-a.workers.ended:
			running--
			switch code, ok := a.outcome(w); {
			case stopping:
				a.stopped++
			case ok:
				a.code = max(a.code, code)
			default:
				a.failed = append(a.failed, w)
				if kill == nil {
					kill = time.After(a.cfg.Grace)
				}
				switch {
				case code != CodePeerLost && !known:
					known, stop = true, time.After(settle)
				case stop == nil:
					stop = time.After(a.cfg.Grace / 2)
				}
			}
		case w, ok := <-heard:
			if !ok {
				heard = nil
				continue
			}
			a.receive(w)
		case <-look.C:
			if a.findStopped() && !stopping {
				stop, stopping = nil, true
				a.workers.signal(syscall.SIGTERM)
				if kill == nil {
					kill = time.After(a.cfg.Grace)
				}
			}
		case <-stop:
			stop, stopping = nil, true
			a.workers.signal(syscall.SIGTERM)
		case <-kill:
			a.workers.signal(syscall.SIGKILL)
		case <-heed:
			if a.blame(func(w *worker) bool { return !a.acked[w.rank] }, fmt.Sprintf("did not react to %s within %v", unix.SignalName(a.asked), a.cfg.Grace)) {
				stopping = true
				a.workers.signal(syscall.SIGKILL)
			}
		case <-end:
			a.blame(func(*worker) bool { return true }, fmt.Sprintf("did not end within %v of %s", a.cfg.StopGrace, unix.SignalName(a.asked)))
			stopping = true
			a.workers.signal(syscall.SIGKILL)
		case <-done:
			done = nil
			a.workers.signal(syscall.SIGTERM)
			kill = time.After(a.cfg.Grace)
		case s := <-a.cfg.Signals:
			a.handle(s.(syscall.Signal))
			if a.asked != 0 && heed == nil {
				heed, end = time.After(a.cfg.Grace), time.After(a.cfg.StopGrace)
			}
		}
		if len(a.failed) > 0 && running > 0 && !known && a.onlyBlamed() {
			known, stop, kill = true, time.After(settle), time.After(2*settle) // the blamed do not heed SIGTERM
		}
	}
}

// handle hands a signal on, or kills.
func (a *attempt) handle(s syscall.Signal) {
	switch s {
	case syscall.SIGQUIT: // which would end a worker that does not listen yet
		n := 0
		for _, w := range a.workers.all {
			if a.ready[w.rank] && !w.gone.Load() {
				n++
				w.signal(s)
			}
		}
		fmt.Fprintf(a.stderr, "stacks of all goroutines of the launcher and %d ranks: %s\n", n, stacksIn(a.cfg.LogDir))
	case syscall.SIGTSTP: // Ctrl-Z reaches this process alone
		a.workers.signal(syscall.SIGSTOP)
		syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
		a.workers.signal(syscall.SIGCONT)
	default:
		switch {
		case a.requestsStop(s):
			if s == syscall.SIGINT {
				a.workers.signal(s)
				fmt.Fprintln(a.stderr, stoppingText)
			} else {
				a.workers.signal(syscall.SIGTERM) // Go ignores SIGUSR1 until somebody listens
			}
		case s == syscall.SIGINT:
			a.killed = true
			a.workers.signal(syscall.SIGKILL)
		}
	}
}

// requestsStop says whether s is the first signal to ask for a stop, and keeps it.
func (a *attempt) requestsStop(s syscall.Signal) bool {
	if a.asked != 0 || !slices.Contains(stopSignals, os.Signal(s)) {
		return false
	}
	a.asked = s
	return true
}
