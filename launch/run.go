package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Run launches a job and returns when all its workers have ended and their output has been
// read. The code is what this process should exit with: 0, CodeStopped, CodeInterrupted,
// 128 + the number of a signal that was handed on, or that of the first worker that
// failed, whose *Failure is then the error. When ctx ends the workers are stopped as by
// SIGTERM, with Grace, and the error is ctx's.
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
	signals := cfg.Signals
	if signals == nil {
		c := make(chan os.Signal, 8)
		signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGTSTP)
		defer signal.Stop(c)
		signals = c
	}

	for n := 0; ; n++ {
		a := attempt{cfg: cfg, number: n, signals: signals, stderr: stderr, began: time.Now()}
		if err := a.run(ctx, stdout, stderr); err != nil {
			return 1, err
		}
		switch {
		case a.killed:
			return CodeInterrupted, nil
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
	cfg     Config
	number  int
	signals <-chan os.Signal
	stderr  io.Writer
	began   time.Time

	crew    *crew
	asked   syscall.Signal // the first signal to stop that was handed on
	killed  bool           // by a second SIGINT
	failed  []*worker      // in the order of their ends, before others were stopped for it
	stopped int            // ranks that others' failure stopped
	words   []word         // that workers said
	code    int            // if none failed
	failure *Failure
}

func (a *attempt) run(ctx context.Context, stdout, stderr io.Writer) error {
	port := a.cfg.MasterPort
	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
	}
	b, err := newBond(max(a.cfg.Nodes, 1) == 1)
	if err != nil {
		return err
	}
	defer b.close()
	oom := readOOM()
	if a.crew, err = start(a.cfg, b, a.number, port, a.cfg.RunID, stdout, stderr); err != nil {
		return err
	}
	defer a.crew.finish()
	heard := make(chan word)
	go listen(b.blame, heard)
	b.blameW.Close() // the workers have theirs
	a.watch(ctx, heard)
	b.blame.SetReadDeadline(time.Now().Add(time.Second)) // a descendant that escaped may hold the other end
	for w := range heard {
		a.words = append(a.words, w)
	}
	if a.killed || len(a.failed) == 0 {
		return nil
	}
	first, blamed := a.first(), culprit(a.words)
	if code, _ := a.judge(first); code == CodePeerLost && blamed != nil {
		a.failure = a.describeLost(blamed)
	} else {
		a.failure = a.describe(first, oom)
	}
	return nil
}

// settle is how long a failure waits for its company, such as rank 0, which failed alike. One
// that is another rank's fault waits for that rank for half of the grace.
const settle = 150 * time.Millisecond

// watch returns when all workers have ended.
func (a *attempt) watch(ctx context.Context, heard <-chan word) {
	var stop, kill <-chan time.Time
	known := false // whose fault it is
	done := ctx.Done()
	stopping := false
	for running := len(a.crew.workers); running > 0; {
		select {
		case w := <-a.crew.ended:
			running--
			switch code, ok := a.judge(w); {
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
			a.words = append(a.words, w)
		case <-stop:
			stop, stopping = nil, true
			a.crew.signal(syscall.SIGTERM)
		case <-kill:
			a.crew.signal(syscall.SIGKILL)
		case <-done:
			done = nil
			a.crew.signal(syscall.SIGTERM)
			kill = time.After(a.cfg.Grace)
		case s := <-a.signals:
			a.handle(s.(syscall.Signal))
		}
		if len(a.failed) > 0 && running > 0 && !known && a.onlyBlamed() {
			known, stop, kill = true, time.After(settle), time.After(2*settle) // the blamed do not heed SIGTERM
		}
	}
}

// onlyBlamed says that those that are still running are ranks that others blame.
func (a *attempt) onlyBlamed() bool {
	blamed := map[int]bool{}
	for _, w := range a.words {
		blamed[w.Rank] = true
	}
	for _, w := range a.crew.workers {
		if !w.gone.Load() && !blamed[w.rank] {
			return false
		}
	}
	return true
}

// handle hands a signal on, or kills.
func (a *attempt) handle(s syscall.Signal) {
	switch s {
	case syscall.SIGHUP:
	case syscall.SIGQUIT:
		a.crew.signal(s)
	case syscall.SIGTSTP: // Ctrl-Z reaches this process alone
		a.crew.signal(syscall.SIGSTOP)
		syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
		a.crew.signal(syscall.SIGCONT)
	default:
		switch {
		case a.asked == 0:
			a.asked = s
			a.crew.signal(s)
			if s == syscall.SIGINT {
				fmt.Fprintln(a.stderr, "stopping; Ctrl-C again stops at once, without a save")
			}
		case s == syscall.SIGINT:
			a.killed = true
			a.crew.signal(syscall.SIGKILL)
		}
	}
}

// judge gives a worker's code, and whether it ended as it should.
func (a *attempt) judge(w *worker) (int, bool) {
	if w.state == nil {
		return 1, false
	}
	ws := w.state.Sys().(syscall.WaitStatus)
	code := ws.ExitStatus()
	if ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	asked := a.asked != 0 && code == 128+int(a.asked) // a program that knows no better way to stop
	return code, code == 0 || code == CodeStopped || asked
}

// first is the worker that failed first, not counting those that say another did, and rank
// 0 if it ended in the same way as that one: what it said has been read already.
func (a *attempt) first() *worker {
	var first *worker
	for _, w := range a.failed {
		switch code, _ := a.judge(w); {
		case first == nil:
			first = w
		case code == CodePeerLost:
		default:
			if c, _ := a.judge(first); c == CodePeerLost || w.rank == 0 && c == code && code < 128 {
				first = w
			}
		}
	}
	return first
}

// describe makes the failure of the first worker known.
func (a *attempt) describe(w *worker, oom oomCount) *Failure {
	w.drain()
	f := &Failure{Rank: w.rank, After: w.at.Sub(a.began), Log: a.cfg.logPath(w.rank), Others: a.stopped + len(a.failed) - 1}
	f.Code, _ = a.judge(w)
	if w.state != nil {
		if ws := w.state.Sys().(syscall.WaitStatus); ws.Signaled() {
			f.Signal = ws.Signal()
		}
	}
	if f.Signal == syscall.SIGKILL {
		f.OutOfMemory, f.MemoryLimit = readOOM().since(oom)
	}
	f.Lines = w.out.tail.lines(tailLines)
	f.Shown = a.cfg.ShowAll || w.rank == a.cfg.NodeRank*a.cfg.Nproc
	return f
}

// describeLost makes it known that others blame a rank, which may be another machine's.
func (a *attempt) describeLost(b *word) *Failure {
	f := &Failure{Rank: b.Rank, Code: CodePeerLost, Why: b.Why, After: time.Since(a.began), Others: a.stopped + len(a.failed)}
	for _, w := range a.crew.workers {
		if w.rank != b.Rank {
			continue
		}
		w.drain()
		f.Lines, f.Log = w.out.tail.lines(tailLines), a.cfg.logPath(w.rank)
		f.Shown = a.cfg.ShowAll || w.rank == a.cfg.NodeRank*a.cfg.Nproc
		f.Others-- // it is among those that were ended
	}
	return f
}

// tailLines is how many of the failed rank's last lines are kept.
const tailLines = 20
