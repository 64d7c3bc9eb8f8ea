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

// Shutdown handles a process's stop signals for its whole life. The first signal is the stop request. Methods
// are safe for concurrent use.
//
// Before Graceful, a stop signal ends the process at once. After Graceful, it cancels Context, and the process
// has its grace (SetGrace) to exit.
type Shutdown struct {
	launcher *reporter
	dump     *dump
	ctx      context.Context
	cancel   context.CancelCauseFunc
	signals  chan os.Signal
	wg       sync.WaitGroup
	exit     func(code int)

	mu        sync.Mutex
	out       io.Writer
	requested *StopRequest // nil: no request
	graceful  int          // calls of Graceful without release
	grace     time.Duration
	timer     *time.Timer
	forwardTo chan<- os.Signal // receives the signals instead; or nil
	atKill    func()           // SetAtKill
}

// StopRequest is the cause of Context's cancellation: the stop signal.
type StopRequest struct{ Signal syscall.Signal }

func (a *StopRequest) Error() string { return "stopped (" + a.Signal.String() + ")" }

// Unwrap returns context.Canceled.
func (a *StopRequest) Unwrap() error { return context.Canceled }

// Code returns the exit code of a process that stopped without a checkpoint.
func (a *StopRequest) Code() int {
	if a.Signal == syscall.SIGINT {
		return CodeInterrupted
	}
	return CodeTerminated
}

// StartupGrace is the grace before SetGrace.
const StartupGrace = 5 * time.Second

// stopSignals are the signals that request a stop. SIGHUP is not: a graceful process outlives its terminal.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// crashSignals are signals of the process's own faults. From another process they write a stack.
var crashSignals = []os.Signal{syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS}

// HandleSignals starts signal handling. Call it first in main. lookup is os.LookupEnv; out receives lines for
// the user; a nil exit is os.Exit. SIGINT after a stop request exits with 130 at once. SIGQUIT writes the
// stacks of all goroutines to a file (SetDumpDir) and continues. Close ends signal handling.
func HandleSignals(lookup func(string) (string, bool), out io.Writer, exit func(code int)) *Shutdown {
	if exit == nil {
		exit = os.Exit
	}
	s := &Shutdown{signals: make(chan os.Signal, 32), exit: exit, out: out, grace: StartupGrace}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	signal.Notify(s.signals, stopSignals...)
	signal.Notify(s.signals, syscall.SIGQUIT)
	signal.Notify(s.signals, crashSignals...)
	s.launcher, s.dump = newTalk(lookup), newDump(lookup)
	s.wg.Go(func() {
		for sig := range s.signals {
			s.handle(sig.(syscall.Signal))
		}
	})
	s.launcher.sendOwn(message{Ready: true})
	return s
}

// Context is canceled by a stop request, with a *StopRequest as cause.
func (s *Shutdown) Context() context.Context { return s.ctx }

// Requested returns the stop request, or nil.
func (s *Shutdown) Requested() *StopRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requested
}

// Graceful makes stop signals cancel Context instead of ending the process, and ignores SIGHUP and SIGPIPE.
// release undoes it.
func (s *Shutdown) Graceful() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.graceful++; s.graceful == 1 {
		signal.Notify(s.signals, syscall.SIGHUP, syscall.SIGPIPE)
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.graceful--; s.graceful == 0 {
			signal.Reset(syscall.SIGHUP, syscall.SIGPIPE)
		}
	})
}

// SetGrace sets the time that a graceful process has to exit after a stop request, or from now on if there is
// one. Then it exits with StopRequest.Code.
func (s *Shutdown) SetGrace(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grace = d
	if s.timer != nil {
		s.timer.Reset(d)
	}
}

// SetOutput sets the writer of lines for the user.
func (s *Shutdown) SetOutput(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = w
}

// SetAtKill sets what a second SIGINT calls before it ends the process, for a second or less, beside what the process does.
func (s *Shutdown) SetAtKill(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atKill = do
}

// SetDumpDir sets the directory of stacks, goroutines-NAME.txt and crash-NAME.txt, which is created when
// needed. The default is os.TempDir.
func (s *Shutdown) SetDumpDir(dir, name string) { s.dump.setDir(dir, name) }

// DumpCrashes makes Go's runtime also write crash output to a file in the dump directory. Close removes the
// file if it is empty.
func (s *Shutdown) DumpCrashes() { s.dump.openCrashFile() }

// WriteCrash writes text, a bug with its stack, to the launcher's crash file, or else to the dump directory. It
// returns the path, or "" if the launcher has it.
func (s *Shutdown) WriteCrash(text string) (path string, err error) { return s.dump.crash(text) }

// Forward sends all signals, Ctrl-Z (SIGTSTP) too, to a buffered channel, for a launcher. A stop request is sent
// first. release ends it.
func (s *Shutdown) Forward(to chan<- os.Signal) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.requested != nil {
		to <- s.requested.Signal
	}
	s.forwardTo = to
	signal.Notify(s.signals, syscall.SIGTSTP)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forwardTo = nil
		signal.Reset(syscall.SIGTSTP)
	}
}

// request records a stop request. first reports whether it is the first; to is the channel of Forward, or nil.
// A concurrent Forward sends an earlier request itself.
func (s *Shutdown) request(a *StopRequest) (first bool, to chan<- os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requested != nil {
		return false, s.forwardTo
	}
	s.requested = a
	if s.forwardTo == nil {
		s.timer = time.AfterFunc(s.grace, func() {
			fmt.Fprintf(s.writer(), "%v: did not end in time\n", a)
			s.end(a.Code())
		})
	}
	s.cancel(a)
	return true, s.forwardTo
}

func (s *Shutdown) writer() io.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out
}

func (s *Shutdown) handle(sig syscall.Signal) {
	s.mu.Lock()
	graceful, to, out := s.graceful > 0, s.forwardTo, s.out
	s.mu.Unlock()
	switch sig {
	case syscall.SIGHUP, syscall.SIGPIPE:
		return
	case syscall.SIGQUIT:
		path, err := s.dump.goroutines()
		if err != nil {
			fmt.Fprintln(out, err)
		} else if to == nil && s.launcher == nil {
			fmt.Fprintf(out, "stacks of all goroutines: %s\n", path)
		}
	case syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS:
		path, err := s.dump.crash(fmt.Sprintf("signal from another process: %v\n\n%s", sig, stacks()))
		if err != nil {
			fmt.Fprintln(out, err)
		} else if path != "" {
			fmt.Fprintf(out, "ended by signal %d (%v). stack: %s\n", int(sig), sig, path)
		}
		s.end(CodeCrashed)
	case syscall.SIGTSTP:
	default:
		a, first := &StopRequest{sig}, false
		first, to = s.request(a)
		switch {
		case to != nil:
		case first:
			s.launcher.sendOwn(message{Stopping: true})
			if !graceful {
				s.end(a.Code())
			}
			if sig == syscall.SIGINT && s.launcher == nil {
				fmt.Fprintln(out, stoppingText)
			}
		case sig == syscall.SIGINT:
			s.kill()
		}
	}
	if to != nil {
		select {
		case to <- sig:
		default: // full
		}
	}
}

// kill ends the process by the second SIGINT.
func (s *Shutdown) kill() {
	s.mu.Lock()
	do := s.atKill
	s.mu.Unlock()
	if do != nil {
		done := make(chan struct{})
		go func() {
			defer close(done)
			do()
		}()
		select {
		case <-done:
		case <-time.After(time.Second):
		}
	}
	s.end(CodeInterrupted)
}

// end exits, after removing an empty crash file.
func (s *Shutdown) end(code int) {
	s.dump.close()
	s.exit(code)
}

const stoppingText = "stopping; press Ctrl-C again to stop at once, without a checkpoint"

// Close restores the default signal handling.
func (s *Shutdown) Close() {
	signal.Stop(s.signals)
	close(s.signals)
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cancel(nil)
	s.launcher.close()
	s.dump.close()
}
