package tensor

import (
	"fmt"
	"io"
)

// BackingStore is a place that is no memory: a part of a file, counted from its beginning. Both methods
// may be called from several goroutines, for ranges that do not overlap.
type BackingStore interface {
	io.ReaderAt
	io.WriterAt
}

// NewOffloaded makes a buffer of Offloaded bytes that lie in far, or nowhere where far is nil. Tensors in
// it can be cut like others; what computes does not take them. Fetch and Store move their
// elements.
func NewOffloaded(m *Meter, far BackingStore, size int) *Buffer {
	m.Add(Offloaded, int64(size))
	b := NewBuffer(nil, size, Offloaded, func(b *Buffer) { m.Add(Offloaded, -int64(b.Size)) })
	b.Backing = far
	return b
}

// Fetch reads a far tensor's elements into dst, of t.Bytes() bytes.
func Fetch(dst []byte, t *Tensor) error {
	at, err := t.offloaded(len(dst))
	if err == nil {
		_, err = t.buf.Backing.ReadAt(dst, at)
	}
	return err
}

// Store writes a far tensor's elements from src, of t.Bytes() bytes.
func Store(t *Tensor, src []byte) error {
	at, err := t.offloaded(len(src))
	if err == nil {
		_, err = t.buf.Backing.WriteAt(src, at)
	}
	return err
}

// far is the place of t's first byte.
func (t *Tensor) offloaded(n int) (int64, error) {
	if t.buf.Backing == nil || !t.Contiguous() || n != t.Bytes() {
		return 0, fmt.Errorf("tensor: %d bytes for %v, far %t", n, t, t.buf.Backing != nil)
	}
	return int64(t.off) * int64(t.dtype.Size()), nil
}
