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

// Stop is a process's one state of being asked to end, from its first moment to its last. Signals
// ask; the first one counts, and is never forgotten. All methods may be called from any goroutine.
//
// Until Hold, a signal ends the process at once: it has nothing to put in order. After Hold a
// signal cancels Context, and the process has Patience to end by itself.
type Stop struct {
	talk    *talk
	dump    *dump
	ctx     context.Context
	cancel  context.CancelCauseFunc
	signals chan os.Signal
	wg      sync.WaitGroup
	exit    func(code int)

	mu       sync.Mutex
	out      io.Writer
	asked    *Asked // nil: nobody has
	holds    int
	patience time.Duration
	timer    *time.Timer
	taker    chan<- os.Signal // gets the signals instead
}

// Asked is the cause of Context's end: the signal that asked this process to stop.
type Asked struct{ Signal syscall.Signal }

func (a *Asked) Error() string { return "stopped (" + a.Signal.String() + ")" }

// Unwrap makes it a context's end, wherever it is given as the cause of one.
func (a *Asked) Unwrap() error { return context.Canceled }

// Code is the exit code of a process that was asked to stop and has saved nothing.
func (a *Asked) Code() int {
	if a.Signal == syscall.SIGINT {
		return CodeInterrupted
	}
	return CodeTerminated
}

// StartupPatience is how long a process that holds has to end, until Patience says otherwise.
const StartupPatience = 5 * time.Second

// stopSignals ask to stop. SIGHUP does not: a held process outlives its terminal.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// crashSignals are what a process gets of its own faults; from others they ask for a stack.
var crashSignals = []os.Signal{syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS}

// OnStop begins to listen to signals, for the life of the process: call it first of all. lookup is
// os.LookupEnv; out gets the few lines that concern a user; exit is os.Exit where nil. SIGINT after
// another request exits with 130 at once. SIGQUIT writes the stacks of all goroutines to a file (see
// Dir), and the process goes on. Close ends the listening.
func OnStop(lookup func(string) (string, bool), out io.Writer, exit func(code int)) *Stop {
	if exit == nil {
		exit = os.Exit
	}
	s := &Stop{signals: make(chan os.Signal, 32), exit: exit, out: out, patience: StartupPatience}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	signal.Notify(s.signals, stopSignals...)
	signal.Notify(s.signals, syscall.SIGQUIT)
	signal.Notify(s.signals, crashSignals...)
	s.talk, s.dump = newTalk(lookup), newDump(lookup)
	s.wg.Go(func() {
		for sig := range s.signals {
			s.handle(sig.(syscall.Signal))
		}
	})
	s.talk.say(word{Ready: true})
	return s
}

// Context ends when somebody asks to stop; its cause is then an *Asked.
func (s *Stop) Context() context.Context { return s.ctx }

// Asked says who asked to stop; nil: nobody has.
func (s *Stop) Asked() *Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Hold makes signals cancel Context instead of ending the process, and lets it outlive its
// terminal and readers of its output that go away (SIGHUP, SIGPIPE). release undoes it.
func (s *Stop) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds++; s.holds == 1 {
		signal.Notify(s.signals, syscall.SIGHUP, syscall.SIGPIPE)
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holds--; s.holds == 0 {
			signal.Reset(syscall.SIGHUP, syscall.SIGPIPE)
		}
	})
}

// Patience is how long a process that holds may take to end once it has been asked to, from now on
// where it has been. Then it exits, with the code of a stop without a save.
func (s *Stop) Patience(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience = d
	if s.timer != nil {
		s.timer.Reset(d)
	}
}

// Show sends what concerns the user to w from now on.
func (s *Stop) Show(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = w
}

// Dir is where stacks are written from now on, as goroutines-NAME.txt and crash-NAME.txt; it is made
// when needed. Before, they go to the directory for temporary files.
func (s *Stop) Dir(dir, name string) { s.dump.place(dir, name) }

// KeepCrash makes Go's runtime write the stacks with which it ends this process to Dir too, as it
// does to the launcher. Close removes the file if nothing has come.
func (s *Stop) KeepCrash() { s.dump.keep() }

// Crash keeps text, a mistake of this program with its stack, where the launcher or Dir wants it,
// and returns the file, or "" where the launcher has it.
func (s *Stop) Crash(text string) (path string, err error) { return s.dump.crash(text) }

// Take sends all signals to a channel with room for some, as a launcher needs that hands them on,
// beginning with the one that has asked to stop, if any. Ctrl-Z is then among them. release ends it.
func (s *Stop) Take(to chan<- os.Signal) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.asked != nil {
		to <- s.asked.Signal
	}
	s.taker = to
	signal.Notify(s.signals, syscall.SIGTSTP)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taker = nil
		signal.Reset(syscall.SIGTSTP)
	}
}

// request notes that a signal asks to stop. first says whether none had before; taker is who gets the
// signals instead, nil for nobody: Take, at the same time, passes on what came before it.
func (s *Stop) request(a *Asked) (first bool, taker chan<- os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked != nil {
		return false, s.taker
	}
	s.asked = a
	if s.taker == nil {
		s.timer = time.AfterFunc(s.patience, func() {
			fmt.Fprintf(s.writer(), "%v: did not end in time\n", a)
			s.end(a.Code())
		})
	}
	s.cancel(a)
	return true, s.taker
}

func (s *Stop) writer() io.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out
}

func (s *Stop) handle(sig syscall.Signal) {
	s.mu.Lock()
	held, taker, out := s.holds > 0, s.taker, s.out
	s.mu.Unlock()
	switch sig {
	case syscall.SIGHUP, syscall.SIGPIPE:
		return
	case syscall.SIGQUIT:
		path, err := s.dump.goroutines()
		if err != nil {
			fmt.Fprintln(out, err)
		} else if taker == nil && s.talk == nil {
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
		a, first := &Asked{sig}, false
		first, taker = s.request(a)
		switch {
		case taker != nil:
		case first:
			s.talk.say(word{Stopping: true})
			if !held {
				s.end(a.Code())
			}
			if sig == syscall.SIGINT && s.talk == nil {
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
func (s *Stop) end(code int) {
	s.dump.close()
	s.exit(code)
}

const stoppingText = "stopping; Ctrl-C again stops at once, without a save"

// Close gives the signals back to their defaults.
func (s *Stop) Close() {
	signal.Stop(s.signals)
	close(s.signals)
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cancel(nil)
	s.talk.close()
	s.dump.close()
}
