//go:build !linux

package tensor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Reserve returns an arena over n bytes of private address space, extended when full.
func Reserve(n int) (*Arena, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("tensor: %w", &AddressSpaceError{int64(n), "a rank's tensors", err})
	}
	a := NewArena(mem, unix.Munmap)
	a.grow = Reserve
	return a, nil
}

// Prefault does nothing: pages fault on first touch.
func (a *Arena) Prefault(int) {}
