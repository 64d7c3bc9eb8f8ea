package cli

import (
	"os"
	"runtime/debug"
	"syscall"

	"trireme/tensor"
)

// Needs of a process with a limited address space (ulimit -v, h_vmem of a scheduler). Go's runtime
// reserves more than a gigabyte and crashes if it cannot.
const (
	minAddressSpace = 1900 << 20 // total
	minFreeSpace    = 256 << 20  // free at the start of a command
)

// arenasVar limits the 64 MiB regions that the C library reserves, by default one per thread.
const arenasVar = "MALLOC_ARENA_MAX"

// LimitArenas restarts the program with fewer reserved regions if its address space is limited, and
// returns otherwise.
func LimitArenas() {
	if _, _, limited := tensor.AddressSpace(); !limited || os.Getenv(arenasVar) != "" {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		return
	}
	// If Exec fails, the program continues unchanged.
	_ = syscall.Exec(exe, os.Args, append(os.Environ(), arenasVar+"=1"))
}

// limitHeap limits the Go heap in a limited address space, and refuses one that is too small.
func limitHeap() error {
	limit, used, limited := tensor.AddressSpace()
	switch {
	case !limited:
		return nil
	case limit < minAddressSpace:
		return &tensor.AddressSpaceError{Bytes: minAddressSpace - used, For: "the program itself"}
	case limit-used < minFreeSpace:
		return &tensor.AddressSpaceError{Bytes: minFreeSpace, For: "the program itself"}
	}
	debug.SetMemoryLimit((limit - used) / 2)
	return nil
}
