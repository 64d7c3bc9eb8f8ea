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

// ErrKilled: a second SIGINT killed the job.
var ErrKilled = errors.New("launch: killed by the second Ctrl-C")

// Run starts the workers of this machine once and returns when all workers have ended and their output is read. code is the exit code
// for this process: 0; CodeStopped, CodeInterrupted or CodeTerminated after a forwarded signal; or that of
// the failed worker, with a *Failure. If ctx is done, Run stops the workers by SIGTERM, with Grace, and
// returns ctx's error, or the *Failure of a worker that failed before.
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
	if err := cfg.complete(); err != nil {
		return 1, err
	}
	if cfg.StoppedTimeout <= 0 {
		cfg.StoppedTimeout = time.Second
	}
	if cfg.StopGrace <= 0 {
		cfg.StopGrace = 10 * time.Minute
	}

	a := attempt{cfg: cfg, stderr: stderr, began: time.Now()}
	select {
	case sig := <-cfg.Signals: // before workers start
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
	case a.failure != nil:
		return a.failure.Code, a.failure
	case ctx.Err() != nil:
		return 1, fmt.Errorf("launch: %w", context.Cause(ctx))
	}
	return a.code, nil
}

// attempt is one start of all workers, to their end.
type attempt struct {
	cfg    Config
	stderr io.Writer
	began  time.Time

	workers     *workers
	stopSignal  syscall.Signal // the first forwarded stop signal
	killed      bool           // by a second SIGINT
	failed      []*worker      // in order, before others were stopped
	stopped     int            // number of ranks stopped because of a failure
	accusations []message      // root-cause reports
	ready       map[int]bool   // ranks that handle signals
	acked       map[int]bool   // ranks that have acknowledged one
	firsts      map[int]int    // the rank that failed first in a worker, by the worker's rank, as it reports
	code        int            // if none failed
	failure     *Failure
}

func (a *attempt) run(ctx context.Context, stdout, stderr io.Writer) error {
	l, err := newLink(&a.cfg.World)
	if err != nil {
		return err
	}
	defer l.close()
	oom := readOOM()
	if a.workers, err = start(a.cfg, l, stdout, stderr); err != nil {
		return err
	}
	defer a.workers.finish()
	messages := make(chan message)
	go readMessages(l.reports, messages)
	l.reportsW.Close() // the workers have copies
	a.ready, a.acked, a.firsts = map[int]bool{}, map[int]bool{}, map[int]int{}
	a.watch(ctx, messages)
	l.reports.SetReadDeadline(time.Now().Add(time.Second)) // an escaped descendant may hold the write end
	for w := range messages {
		a.receive(w)
	}
	first, cause := a.firstFailed(), rootCause(a.credible())
	lost := false // the first failed worker ended because of another
	if first != nil {
		code, _ := a.outcome(first)
		lost = code == CodePeerLost
	}
	switch {
	case a.killed:
	case cause != nil && (first == nil || lost):
		a.failure = a.lostFailure(cause)
	case lost && a.stopSignal != 0: // a rank without a step has ended
		a.code = a.stopCode()
	case first != nil:
		a.failure = a.workerFailure(first, oom)
	}
	return nil
}

// settle is the time to wait for concurrent failures, such as rank 0 with the same error. A failure caused by
// another rank waits for that rank for half of the grace.
const settle = 150 * time.Millisecond

func (a *attempt) watch(ctx context.Context, messages <-chan message) {
	var stop, kill, ackTimeout, end <-chan time.Time
	look := time.NewTicker(a.cfg.StoppedTimeout / checks)
	defer look.Stop()
	known := false // the root cause is known
	failing := a.cfg.Failing
	done := ctx.Done()
	stopping := false
	for running := len(a.workers.all); running > 0; {
		select {
		case w := <-a.workers.ended:
			running--
			switch code, ok := a.outcome(w); {
			case stopping:
				a.stopped += w.ranks
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
		case w, ok := <-messages:
			if !ok {
				messages = nil
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
		case <-ackTimeout:
			if a.accuse(func(w *worker) bool { return a.ready[w.rank] && !a.acked[w.rank] }, fmt.Sprintf("did not react to %s within %v", unix.SignalName(a.stopSignal), a.cfg.Grace)) {
				stopping = true
				a.workers.signal(syscall.SIGKILL)
			}
		case <-end:
			a.accuse(func(*worker) bool { return true }, fmt.Sprintf("did not end within %v of %s", a.cfg.StopGrace, unix.SignalName(a.stopSignal)))
			stopping = true
			a.workers.signal(syscall.SIGKILL)
		case <-done:
			done, stop, stopping = nil, nil, true
			a.workers.signal(syscall.SIGTERM)
			kill = time.After(a.cfg.Grace)
		case s := <-a.cfg.Signals:
			a.handle(s.(syscall.Signal))
			if a.stopSignal != 0 && ackTimeout == nil {
				ackTimeout, end = time.After(a.cfg.Grace), time.After(a.cfg.StopGrace)
			}
		}
		if failing != nil && (len(a.failed) > 0 || len(a.accusations) > 0 && stopping) {
			code := CodePeerLost
			if first := a.firstFailed(); first != nil {
				code, _ = a.outcome(first)
			}
			failing(code)
			failing = nil
		}
		if len(a.failed) > 0 && running > 0 && !known && a.onlyAccusedRun() {
			known, stop, kill = true, time.After(settle), time.After(2*settle) // the accused ranks do not react to SIGTERM
		}
	}
}

func (a *attempt) handle(s syscall.Signal) {
	switch s {
	case syscall.SIGQUIT: // kills a worker that does not handle signals yet
		n := 0
		for _, w := range a.workers.all {
			if a.ready[w.rank] && !w.gone.Load() {
				n += w.ranks
				w.signal(s)
			}
		}
		fmt.Fprintf(a.stderr, "stacks of all goroutines of the launcher and %d ranks: %s\n", n, stacksIn(a.cfg.LogDir))
	case syscall.SIGTSTP: // Ctrl-Z reaches only this process
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
				a.workers.signal(syscall.SIGTERM) // Go ignores SIGUSR1 before signal.Notify
			}
		case s == syscall.SIGINT:
			a.killed = true
			a.workers.signal(syscall.SIGKILL)
		}
	}
}

// requestsStop reports whether s is the first stop signal, and records it.
func (a *attempt) requestsStop(s syscall.Signal) bool {
	if a.stopSignal != 0 || !slices.Contains(stopSignals, os.Signal(s)) {
		return false
	}
	a.stopSignal = s
	return true
}
