package launch

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// parentVar holds the number of a descriptor that closes when the launcher ends.
const parentVar = "TRIREME_PARENT_FD"

// Tied says whether Run, or a launcher like it, started this process.
func Tied(lookup func(string) (string, bool)) bool {
	_, ok := lookup(parentVar)
	return ok
}

// TieToParent ends this process, with its process group, as soon as its launcher ends, also
// when that is killed. cleanup, if not nil, is called first, and must be short. Without a
// launcher (lookup is os.LookupEnv) it does nothing. release undoes it.
func TieToParent(lookup func(string) (string, bool), cleanup func()) (release func(), err error) {
	v, ok := lookup(parentVar)
	if !ok {
		return func() {}, nil
	}
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("launch: %s=%q is not a descriptor", parentVar, v)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, fmt.Errorf("launch: %s=%s is not an open pipe: start the worker directly", parentVar, v)
	}
	syscall.CloseOnExec(fd)
	// The pipe's mode (blocking or not) is shared with the launcher and all workers, so the
	// wait is a poll, which does not depend on it, and a pipe of our own ends it.
	wake, wakeEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	wakeFD := int32(wake.Fd())
	var released sync.WaitGroup
	released.Go(func() {
		if !launcherEnds(int32(fd), wakeFD) {
			return
		}
		if cleanup != nil {
			cleanup()
		}
		if pid := syscall.Getpid(); syscall.Getpgrp() == pid {
			syscall.Kill(-pid, syscall.SIGKILL)
		}
		os.Exit(CodeInterrupted)
	})
	return sync.OnceFunc(func() {
		wakeEnd.Close()
		released.Wait()
		wake.Close()
		syscall.Close(fd)
	}), nil
}

// launcherEnds waits until the launcher's end of the pipe closes, or that of wake, and says
// whether it was the launcher's.
func launcherEnds(launcher, wake int32) bool {
	for {
		fds := []unix.PollFd{{Fd: launcher, Events: unix.POLLIN}, {Fd: wake, Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return false // no memory in the kernel: the death signal still ties us
		}
		if fds[1].Revents != 0 || fds[0].Revents != 0 {
			return fds[1].Revents == 0
		}
	}
}

// Stop is a worker's wish to end early: it is asked for by a signal or by Request, and taken
// up by the loop at the next step boundary, where the ranks agree.
type Stop struct {
	mu      sync.Mutex
	why     string
	asked   chan struct{}
	signals chan os.Signal
	wg      sync.WaitGroup
	exit    func(code int)
}

// OnStop begins to listen to SIGINT, SIGTERM, SIGUSR1 and SIGUSR2: each asks to stop. A
// SIGINT after another wish calls exit(130) at once; exit is os.Exit where nil. Close ends
// the listening.
func OnStop(exit func(code int)) *Stop {
	if exit == nil {
		exit = os.Exit
	}
	s := &Stop{asked: make(chan struct{}), signals: make(chan os.Signal, 8), exit: exit}
	signal.Notify(s.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	s.wg.Go(func() {
		for sig := range s.signals {
			if !s.Request(sig.String()) && sig == syscall.SIGINT {
				s.exit(CodeInterrupted)
			}
		}
	})
	return s
}

// Request asks to stop, and says whether nobody had before.
func (s *Stop) Request(why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != "" {
		return false
	}
	if s.why = why; why == "" {
		s.why = "request"
	}
	close(s.asked)
	return true
}

// Requested says whether someone has asked to stop.
func (s *Stop) Requested() bool {
	select {
	case <-s.asked:
		return true
	default:
		return false
	}
}

// Why is the first reason given, "" if there is none.
func (s *Stop) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// Asked is closed when someone asks.
func (s *Stop) Asked() <-chan struct{} { return s.asked }

// Close gives the signals back to their defaults.
func (s *Stop) Close() {
	signal.Stop(s.signals)
	close(s.signals)
	s.wg.Wait()
}
