package tensor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Reserve makes an arena over n bytes of private address space. Large blocks are backed by
// huge pages where the system has them.
func Reserve(n int) (*Arena, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("tensor: reserve %d bytes of address space: %w", n, err)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // advice only: the kernel may lack huge pages
	return NewArena(mem, unix.Munmap), nil
}
