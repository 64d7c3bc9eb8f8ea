package tensor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Reserve makes an arena over n bytes of private address space, and over further ones once these
// are given out. Large blocks are backed by huge pages where the system has them.
func Reserve(n int) (*Arena, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("tensor: %w", &AddressSpaceError{int64(n), "a rank's tensors", err})
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // advice only: the kernel may lack huge pages
	a := NewArena(mem, unix.Munmap)
	a.grow = Reserve
	return a, nil
}

// Prefault has the system clear the region's first n bytes in the background, so that the
// first touch of a page does not wait for it. The contents of pages that are in use stay.
func (a *Arena) Prefault(n int) {
	a.mu.Lock()
	n = min(n, len(a.mem)) &^ (align - 1)
	mem := a.mem[:n]
	a.mu.Unlock()
	a.background.Go(func() {
		const piece = 8 << 20
		for len(mem) > 0 && !a.closing.Load() {
			p := mem[:min(piece, len(mem))]
			if unix.Madvise(p, unix.MADV_POPULATE_WRITE) != nil {
				return // older kernels do not know it: pages then come at first touch
			}
			mem = mem[len(p):]
		}
	})
}
