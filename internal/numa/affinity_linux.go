package numa

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Allowed returns the processors that this process may use, by its affinity and its cpuset. It is an error if the
// system forbids changes of the affinity, or has more than 1024 processors.
func Allowed() (CPUs, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("numa: %w", os.NewSyscallError("sched_getaffinity", err))
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("numa: %w", os.NewSyscallError("sched_setaffinity", err))
	}
	var all CPUs
	for cpu := range maxCPUs {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// SetThread binds the calling thread, and the processes that it starts, to processors. The goroutine must be locked
// to its thread, and should not unlock it: the thread then ends with the goroutine.
func SetThread(cpus CPUs) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("numa: processors %v: %w", cpus, os.NewSyscallError("sched_setaffinity", err))
	}
	return nil
}
