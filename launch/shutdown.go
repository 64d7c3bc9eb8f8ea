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

// Shutdown is a process's one state of being asked to end, from its first moment to its last. Signals
// ask; the first one counts, and is never forgotten. All methods may be called from any goroutine.
//
// Until Graceful, a signal ends the process at once: it has nothing to put in order. After Graceful a
// signal cancels Context, and the process has its grace (SetGrace) to end by itself.
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
	asked     *StopRequest // nil: nobody has
	graceful  int
	grace     time.Duration
	timer     *time.Timer
	forwardTo chan<- os.Signal // gets the signals instead
}

// StopRequest is the cause of Context's end: the signal that asked this process to stop.
type StopRequest struct{ Signal syscall.Signal }

func (a *StopRequest) Error() string { return "stopped (" + a.Signal.String() + ")" }

// Unwrap makes it a context's end, wherever it is given as the cause of one.
func (a *StopRequest) Unwrap() error { return context.Canceled }

// Code is the exit code of a process that was asked to stop and has saved nothing.
func (a *StopRequest) Code() int {
	if a.Signal == syscall.SIGINT {
		return CodeInterrupted
	}
	return CodeTerminated
}

// StartupGrace is how long a process that holds has to end, until SetGrace says otherwise.
const StartupGrace = 5 * time.Second

// stopSignals ask to stop. SIGHUP does not: a held process outlives its terminal.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// crashSignals are what a process gets of its own faults; from others they ask for a stack.
var crashSignals = []os.Signal{syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS}

// HandleSignals begins to listen to signals, for the life of the process: call it first of all. lookup is
// os.LookupEnv; out gets the few lines that concern a user; exit is os.Exit where nil. SIGINT after
// another request exits with 130 at once. SIGQUIT writes the stacks of all goroutines to a file (see
// Dir), and the process goes on. Close ends the listening.
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
	s.launcher.send(message{Ready: true})
	return s
}

// Context ends when somebody asks to stop; its cause is then a *StopRequest.
func (s *Shutdown) Context() context.Context { return s.ctx }

// Requested says who asked to stop; nil: nobody has.
func (s *Shutdown) Requested() *StopRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Graceful makes signals cancel Context instead of ending the process, and lets it outlive its
// terminal and readers of its output that go away (SIGHUP, SIGPIPE). release undoes it.
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

// SetGrace is how long a process that holds may take to end once it has been asked to, from now on
// where it has been. Then it exits, with the code of a stop without a save.
func (s *Shutdown) SetGrace(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grace = d
	if s.timer != nil {
		s.timer.Reset(d)
	}
}

// SetOutput sends what concerns the user to w from now on.
func (s *Shutdown) SetOutput(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = w
}

// SetDumpDir is where stacks are written from now on, as goroutines-NAME.txt and crash-NAME.txt; it is made
// when needed. Before, they go to the directory for temporary files.
func (s *Shutdown) SetDumpDir(dir, name string) { s.dump.setDir(dir, name) }

// DumpCrashes makes Go's runtime write the stacks with which it ends this process to Dir too, as it
// does to the launcher. Close removes the file if nothing has come.
func (s *Shutdown) DumpCrashes() { s.dump.openCrashFile() }

// WriteCrash keeps text, a mistake of this program with its stack, where the launcher or Dir wants it,
// and returns the file, or "" where the launcher has it.
func (s *Shutdown) WriteCrash(text string) (path string, err error) { return s.dump.crash(text) }

// Forward sends all signals to a channel with room for some, as a launcher needs that hands them on,
// beginning with the one that has asked to stop, if any. Ctrl-Z is then among them. release ends it.
func (s *Shutdown) Forward(to chan<- os.Signal) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.asked != nil {
		to <- s.asked.Signal
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

// request notes that a signal asks to stop. first says whether none had before; taker is who gets the
// signals instead, nil for nobody: Forward, at the same time, passes on what came before it.
func (s *Shutdown) request(a *StopRequest) (first bool, taker chan<- os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked != nil {
		return false, s.forwardTo
	}
	s.asked = a
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
	held, taker, out := s.graceful > 0, s.forwardTo, s.out
	s.mu.Unlock()
	switch sig {
	case syscall.SIGHUP, syscall.SIGPIPE:
		return
	case syscall.SIGQUIT:
		path, err := s.dump.goroutines()
		if err != nil {
			fmt.Fprintln(out, err)
		} else if taker == nil && s.launcher == nil {
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
		first, taker = s.request(a)
		switch {
		case taker != nil:
		case first:
			s.launcher.send(message{Stopping: true})
			if !held {
				s.end(a.Code())
			}
			if sig == syscall.SIGINT && s.launcher == nil {
				fmt.Fprintln(out, stoppingText)
			}
		case sig == syscall.SIGINT:
			s.end(CodeInterrupted)
		}
	}
	if taker != nil {
		select {
		case taker <- sig:
		default: // nobody reads, and many wait already
		}
	}
}

// end exits, and leaves no empty file.
func (s *Shutdown) end(code int) {
	s.dump.close()
	s.exit(code)
}

const stoppingText = "stopping; Ctrl-C again stops at once, without a save"

// Close gives the signals back to their defaults.
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
