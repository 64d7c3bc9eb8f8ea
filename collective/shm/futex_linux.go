package shm

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// futexWait returns when *word differs from seen, after futexWake, or after d.
func futexWait(word *uint32, seen uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, uintptr(seen), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes all waiters on word, in any process.
func futexWake(word *uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 1, math.MaxInt32, 0, 0, 0)
}
