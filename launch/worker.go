package launch

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// parentVar holds the number of a descriptor that closes when the launcher ends.
const parentVar = "TRIREME_PARENT_FD"

// IsWorker says whether Run, or a launcher like it, started this process.
func IsWorker(lookup func(string) (string, bool)) bool {
	_, ok := lookup(parentVar)
	return ok
}

// ExitWithParent ends this process, with its process group, as soon as its launcher ends, also
// when that is killed. cleanup, if not nil, is called first, and must be short. Without a
// launcher (lookup is os.LookupEnv) it does nothing. release undoes it.
func ExitWithParent(lookup func(string) (string, bool), cleanup func()) (release func(), err error) {
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
