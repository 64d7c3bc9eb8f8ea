package tensor

import (
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"
)

// align is the alignment of blocks: a page, so that kernels see the same alignment whatever
// was allocated before, and no two blocks share a line of cache.
const align = 4096

// Arena gives out blocks of one region outside the Go heap, best fit first, and joins
// neighbours when they come back. A region is reserved address space: a page costs memory
// once it is touched. It is safe for concurrent use.
type Arena struct {
	mu    sync.Mutex
	mem   []byte
	free  []span      // by address, never adjacent
	used  map[int]int // offset -> size
	top   int         // end of the highest block ever given out
	close func([]byte) error

	background sync.WaitGroup // of Prefault
	closing    atomic.Bool
}

type span struct{ off, size int }

// NewArena gives out the blocks of mem, which begins at a page. unmap may be nil.
func NewArena(mem []byte, unmap func([]byte) error) *Arena {
	return &Arena{mem: mem, free: []span{{0, len(mem) &^ (align - 1)}}, used: map[int]int{}, close: unmap}
}

// Alloc returns n bytes with undefined contents. It panics when the region is used up,
// which is address space, not memory: a program's mistake.
func (a *Arena) Alloc(n int) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	size := max(align, (n+align-1)&^(align-1))
	best := -1
	for i, s := range a.free {
		if s.size >= size && (best < 0 || s.size < a.free[best].size) {
			best = i
		}
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

// Free takes back a block that Alloc gave.
func (a *Arena) Free(b []byte) {
	off, ok := a.Offset(b)
	a.mu.Lock()
	defer a.mu.Unlock()
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
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(unsafe.SliceData(a.mem)))
	return int(p - q), p >= q && p < q+uintptr(len(a.mem))
}

// HighWater is the end of the highest block ever given out: at most this many bytes of the
// region have been touched.
func (a *Arena) HighWater() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.top
}

// Close gives the region back to the system.
func (a *Arena) Close() error {
	a.closing.Store(true)
	a.background.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.close == nil || a.mem == nil {
		return nil
	}
	mem := a.mem
	a.mem, a.free = nil, nil
	return a.close(mem)
}
