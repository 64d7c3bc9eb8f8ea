package tensor

import (
	"fmt"
	"io"
)

// BackingStore holds an offloaded buffer's contents, such as a range of a file. Offsets count from
// the start of the buffer. Both methods may be called by several goroutines at once, on ranges that
// do not overlap.
type BackingStore interface {
	io.ReaderAt
	io.WriterAt
}

// NewOffloaded returns a buffer of size bytes in store, or without contents if store is nil. Views
// work as usual, operations do not; Fetch and Store copy elements.
func NewOffloaded(m *Meter, store BackingStore, size int) *Buffer {
	m.Add(Offloaded, int64(size))
	b := NewBuffer(nil, size, Offloaded, func(b *Buffer) { m.Add(Offloaded, -int64(b.Size)) })
	b.Backing = store
	return b
}

// Fetch reads an offloaded tensor into dst. len(dst) is t.Bytes().
func Fetch(dst []byte, t *Tensor) error {
	at, err := t.backingOffset(len(dst))
	if err == nil {
		_, err = t.buf.Backing.ReadAt(dst, at)
	}
	return err
}

// Store writes src to an offloaded tensor. len(src) is t.Bytes().
func Store(t *Tensor, src []byte) error {
	at, err := t.backingOffset(len(src))
	if err == nil {
		_, err = t.buf.Backing.WriteAt(src, at)
	}
	return err
}

// backingOffset is the offset of t's first byte in the backing store.
func (t *Tensor) backingOffset(n int) (int64, error) {
	if t.buf.Backing == nil || !t.Contiguous() || n != t.Bytes() {
		return 0, fmt.Errorf("tensor: %d bytes for %v, offloaded %t", n, t, t.buf.Backing != nil)
	}
	return int64(t.off) * int64(t.dtype.Size()), nil
}
