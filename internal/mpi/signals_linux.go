package mpi

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const signals = 64

// handlers are the actions of all signals, as the kernel encodes them.
type handlers [signals + 1][64]byte

func signalHandlers() *handlers {
	h := &handlers{}
	for s := 1; s <= signals; s++ {
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), 0, uintptr(unsafe.Pointer(&h[s])), 8, 0, 0)
	}
	return h
}

func (h *handlers) restore() {
	now := signalHandlers()
	for s := 1; s <= signals; s++ {
		if now[s] != h[s] {
			unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&h[s])), 0, 8, 0, 0)
		}
	}
}
