package tensor

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"
)

// align is the alignment of blocks: a page, so that kernels see the same alignment whatever
// was allocated before, and no two blocks share a line of cache.
const align = 4096

// Arena gives out blocks of a region outside the Go heap, best fit first, and joins
// neighbours when they come back. A region is reserved address space: a page costs memory
// once it is touched. It is safe for concurrent use.
type Arena struct {
	mu    sync.Mutex
	mem   []byte      // nil until it is mapped
	free  []span      // by address, never adjacent
	used  map[int]int // offset -> size
	top   int         // end of the highest block ever given out
	close func([]byte) error

	size   int // of the region
	views  int
	mapped func(n int) ([]byte, error) // maps its first n bytes
	grow   func(n int) (*Arena, error) // nil: the region is all there is
	next   *Arena                      // a further region, once this one was full

	background sync.WaitGroup // of Prefault
	closing    atomic.Bool
}

type span struct{ off, size int }

// NewArena gives out the blocks of mem, which begins at a page. unmap may be nil.
func NewArena(mem []byte, unmap func([]byte) error) *Arena {
	a := &Arena{size: len(mem), used: map[int]int{}, close: unmap}
	a.take(mem)
	return a
}

// NewUnmappedArena gives out the blocks of a region of size bytes that Map, or else the first
// Alloc, maps by calling mapped for its first bytes. A process maps views regions like it: its own
// and those of its peers.
func NewUnmappedArena(size, views int, mapped func(n int) ([]byte, error), unmap func([]byte) error) *Arena {
	return &Arena{size: size, views: views, used: map[int]int{}, mapped: mapped, close: unmap}
}

// Views is the number of regions like this one that a process maps, 1 or more.
func (a *Arena) Views() int { return max(1, a.views) }

func (a *Arena) take(mem []byte) { a.mem, a.free = mem, []span{{0, len(mem) &^ (align - 1)}} }

// Map maps the first n bytes of the region, or all where it has fewer. The arena gives out no
// more than that. It does nothing where the region is mapped.
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

// Alloc returns n bytes with undefined contents. It panics when there is no more address space,
// which is not memory: a limit of the process, or a program's mistake.
func (a *Arena) Alloc(n int) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.mapFirst(a.size); err != nil {
		panic(err.Error())
	}
	size := max(align, (n+align-1)&^(align-1))
	best := -1
	for i, s := range a.free {
		if s.size >= size && (best < 0 || s.size < a.free[best].size) {
			best = i
		}
	}
	if best < 0 && a.grow != nil {
		return a.further(size).Alloc(n)
	}
	if best < 0 {
		panic(fmt.Sprintf("tensor: an arena of %d bytes cannot hold %d more", len(a.mem), n))
	}
	s := &a.free[best]
	off := s.off
	s.off, s.size = s.off+size, s.size-size
	if s.size == 0 {
		a.free = append(a.free[:best], a.free[best+1:]...)
	}
	a.used[off] = size
	a.top = max(a.top, off+size)
	return a.mem[off : off+n : off+size]
}

// further is a region beside this one that holds size bytes more. a.mu is held.
func (a *Arena) further(size int) *Arena {
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

// Free takes back a block that Alloc gave.
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
		panic("tensor: an arena was given back a block that it did not give out")
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

// Offset is where b begins in the region, and whether it lies in it.
func (a *Arena) Offset(b []byte) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.offset(b)
}

func (a *Arena) offset(b []byte) (int, bool) {
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(unsafe.SliceData(a.mem)))
	return int(p - q), p >= q && p < q+uintptr(len(a.mem))
}

// Close gives the region back to the system.
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
