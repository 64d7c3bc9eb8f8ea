package tensor

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"
)

// align is the alignment of blocks, one page. Kernels see the same alignment for every allocation,
// and no two blocks share a cache line.
const align = 4096

// Arena allocates blocks of a region outside the Go heap, best fit first, and joins free neighbors.
// The region is reserved address space; the operating system commits pages on first touch. It is
// safe for concurrent use.
type Arena struct {
	mu    sync.Mutex
	mem   []byte      // nil until mapped
	free  []span      // by address, never adjacent
	used  map[int]int // offset to size
	top   int         // high-water mark
	close func([]byte) error

	size   int // of the region, in bytes
	views  int
	mapped func(n int) ([]byte, error) // maps the first n bytes
	grow   func(n int) (*Arena, error) // nil: fixed size
	next   *Arena                      // extension, once this region is full

	background sync.WaitGroup // of Prefault
	closing    atomic.Bool
}

type span struct{ off, size int }

// NewArena returns an arena over mem, which is page-aligned. unmap may be nil.
func NewArena(mem []byte, unmap func([]byte) error) *Arena {
	a := &Arena{size: len(mem), used: map[int]int{}, close: unmap}
	a.take(mem)
	return a
}

// NewUnmappedArena returns an arena over a region of size bytes. Map, or the first Alloc, maps it
// by calling mapped. views is the number of such regions that a process maps: its own and those of
// its peers.
func NewUnmappedArena(size, views int, mapped func(n int) ([]byte, error), unmap func([]byte) error) *Arena {
	return &Arena{size: size, views: views, used: map[int]int{}, mapped: mapped, close: unmap}
}

// Views is the number of regions like this one that a process maps, at least 1.
func (a *Arena) Views() int { return max(1, a.views) }

func (a *Arena) take(mem []byte) { a.mem, a.free = mem, []span{{0, len(mem) &^ (align - 1)}} }

// Map maps the first n bytes of the region, or all if it is smaller. The arena allocates only from
// these. Map does nothing if the region is mapped.
func (a *Arena) Map(n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mapFirst(n)
}

func (a *Arena) mapFirst(n int) error {
	if a.mem != nil || a.mapped == nil {
		return nil
	}
	mem, err := a.mapped(min(n, a.size))
	if err == nil {
		a.take(mem)
	}
	return err
}

// Alloc returns n bytes with undefined contents. It panics without enough address space: the
// process has a limit, or there is a bug.
func (a *Arena) Alloc(n int) []byte { return a.alloc(n, false) }

// AllocEnd is Alloc from the end of the last free range that has been used and fits, if there is one. It is for
// gradients: backward frees first what forward allocated last, so they fill that memory from its end and leave
// one free range, where best fit leaves many.
func (a *Arena) AllocEnd(n int) []byte { return a.alloc(n, true) }

func (a *Arena) alloc(n int, end bool) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.mapFirst(a.size); err != nil {
		panic(err.Error())
	}
	size := max(align, (n+align-1)&^(align-1))
	best, last := -1, -1
	for i, s := range a.free {
		if s.size < size {
			continue
		}
		if best < 0 || s.size < a.free[best].size {
			best = i
		}
		if s.off+s.size <= a.top {
			last = i
		}
	}
	if best < 0 && a.grow != nil {
		return a.extend(size).alloc(n, end)
	}
	if best < 0 {
		panic(fmt.Sprintf("tensor: no %d free bytes in an arena of %d", n, len(a.mem)))
	}
	if end = end && last >= 0; end {
		best = last
	}
	s := &a.free[best]
	off := s.off
	if s.size -= size; end {
		off += s.size
	} else {
		s.off += size
	}
	if s.size == 0 {
		a.free = append(a.free[:best], a.free[best+1:]...)
	}
	a.used[off] = size
	a.top = max(a.top, off+size)
	return a.mem[off : off+n : off+size]
}

// extend returns a further region with room for size bytes. a.mu is held.
func (a *Arena) extend(size int) *Arena {
	if a.next == nil {
		next, err := a.grow(max(2*size, len(a.mem)/4))
		if err != nil {
			next, err = a.grow(size)
		}
		if err != nil {
			panic(err.Error())
		}
		a.next = next
	}
	return a.next
}

// Free frees a block from Alloc.
func (a *Arena) Free(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	off, ok := a.offset(b)
	if !ok && a.next != nil {
		a.next.Free(b)
		return
	}
	size, used := a.used[off]
	if !ok || !used {
		panic("tensor: freed a block that the arena did not allocate")
	}
	delete(a.used, off)
	i := sort.Search(len(a.free), func(i int) bool { return a.free[i].off > off })
	a.free = append(a.free, span{})
	copy(a.free[i+1:], a.free[i:])
	a.free[i] = span{off, size}
	if i+1 < len(a.free) && off+size == a.free[i+1].off {
		a.free[i].size += a.free[i+1].size
		a.free = append(a.free[:i+1], a.free[i+2:]...)
	}
	if i > 0 && a.free[i-1].off+a.free[i-1].size == off {
		a.free[i-1].size += a.free[i].size
		a.free = append(a.free[:i], a.free[i+1:]...)
	}
}

// Offset is the offset of b in the region, and whether b is in it.
func (a *Arena) Offset(b []byte) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.offset(b)
}

func (a *Arena) offset(b []byte) (int, bool) {
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(unsafe.SliceData(a.mem)))
	return int(p - q), p >= q && p < q+uintptr(len(a.mem))
}

// Close unmaps the region.
func (a *Arena) Close() error {
	a.closing.Store(true)
	a.background.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	if a.next != nil {
		err = a.next.Close()
	}
	if a.close == nil || a.mem == nil {
		return err
	}
	mem := a.mem
	a.mem, a.free, a.mapped = nil, nil, nil
	return errors.Join(err, a.close(mem))
}
