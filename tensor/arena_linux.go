package tensor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Reserve returns an arena over n bytes of private address space, extended when full. Large blocks
// use huge pages where available.
func Reserve(n int) (*Arena, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("tensor: %w", &AddressSpaceError{int64(n), "a rank's tensors", err})
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // best effort
	a := NewArena(mem, unix.Munmap)
	a.grow = Reserve
	return a, nil
}

// Prefault commits the first n bytes of the region in the background, so that first touches do not
// fault. Pages in use keep their contents.
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
				return // needs Linux 5.14; pages fault on first touch
			}
			mem = mem[len(p):]
		}
	})
}
