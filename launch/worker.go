package launch

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// parentVar is the variable with the descriptor that closes when the launcher ends.
const parentVar = "TRIREME_PARENT_FD"

// IsWorker reports whether Run started this process.
func IsWorker(lookup func(string) (string, bool)) bool {
	_, ok := lookup(parentVar)
	return ok
}

// ExitWithParent ends this process and its process group when the launcher ends or is killed. It first calls
// cleanup, which must be short; nil is none. Without a launcher it does nothing. lookup is os.LookupEnv.
// release undoes it.
func ExitWithParent(lookup func(string) (string, bool), cleanup func()) (release func(), err error) {
	v, ok := lookup(parentVar)
	if !ok {
		return func() {}, nil
	}
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("launch: %s=%q is not a file descriptor", parentVar, v)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, fmt.Errorf("launch: %s=%s is not an open pipe: start the worker directly", parentVar, v)
	}
	syscall.CloseOnExec(fd)
	// The pipe's blocking mode is shared with the launcher and all workers, so wait by poll, which does
	// not depend on it. Another pipe ends the poll.
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

// launcherEnds waits until the launcher's pipe or wake closes, and reports whether it was the launcher's.
func launcherEnds(launcher, wake int32) bool {
	for {
		fds := []unix.PollFd{{Fd: launcher, Events: unix.POLLIN}, {Fd: wake, Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return false // no kernel memory: PR_SET_PDEATHSIG still works
		}
		if fds[1].Revents != 0 || fds[0].Revents != 0 {
			return fds[1].Revents == 0
		}
	}
}
