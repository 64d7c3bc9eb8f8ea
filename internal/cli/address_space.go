package cli

import (
	"os"
	"runtime/debug"
	"syscall"

	"trireme/tensor"
)

// What a process needs of a limited address space (ulimit -v, h_vmem of a scheduler). Go's
// runtime reserves more than a gigabyte as it goes, and where it gets none it dies with a stack.
const (
	minAddressSpace = 1900 << 20 // in all
	minFreeSpace    = 256 << 20  // when a command begins
)

// arenasVar is how many regions of 64 MiB the C library reserves; else it is one for each thread.
const arenasVar = "MALLOC_ARENA_MAX"

// Fit begins the program anew where its address space is limited, with less of it reserved. It
// returns where there is nothing to do.
func LimitArenas() {
	if _, _, limited := tensor.AddressSpace(); !limited || os.Getenv(arenasVar) != "" {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		return
	}
	// Where that fails, the program goes on as it is.
	_ = syscall.Exec(exe, os.Args, append(os.Environ(), arenasVar+"=1"))
}

// withinSpace fits this process into a limited address space: the heap is collected earlier,
// and too little is an error at once.
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
