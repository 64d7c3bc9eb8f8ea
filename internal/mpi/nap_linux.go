package mpi

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleepThread blocks the thread for d.
func sleepThread(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // a signal ends it early
}
