package mpi

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Buffer is memory outside the Go heap for one message. MPI may use it until its request is done.
type Buffer struct {
	B   []byte // of the length that NewBuffer was called with
	mem []byte
}

// The sizes of the memory of buffers: for short messages, and for segments of long ones.
const (
	shortBuffer = 8 << 10
	MaxBuffer   = 256<<10 + 128
)

// pool has memory that no request uses. It never shrinks: its size is that of the messages that were in
// progress at one time.
type pool struct {
	mu    sync.Mutex
	short [][]byte
	long  [][]byte
}

var buffers pool

// NewBuffer returns a buffer of n bytes, up to MaxBuffer. Free it when it is in no request.
func NewBuffer(n int) *Buffer {
	free, size := &buffers.short, shortBuffer
	if n > shortBuffer {
		free, size = &buffers.long, MaxBuffer
	}
	buffers.mu.Lock()
	defer buffers.mu.Unlock()
	if k := len(*free); k > 0 {
		mem := (*free)[k-1]
		*free = (*free)[:k-1]
		return &Buffer{mem[:n], mem}
	}
	mem := mapped(size)
	return &Buffer{mem[:n], mem}
}

// Free returns the memory for other messages.
func (b *Buffer) Free() {
	free := &buffers.short
	if len(b.mem) > shortBuffer {
		free = &buffers.long
	}
	buffers.mu.Lock()
	defer buffers.mu.Unlock()
	*free = append(*free, b.mem)
	b.B, b.mem = nil, nil
}

// mapped returns memory outside the Go heap, which is never unmapped.
func mapped(size int) []byte {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(fmt.Sprintf("mpi: %d bytes of memory: %v", size, err))
	}
	return b
}
