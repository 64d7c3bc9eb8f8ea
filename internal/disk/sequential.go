package disk

import (
	"errors"
	"os"
	"syscall"
)

// A Sequential fills one buffer while the device takes the others.
const (
	sequentialBuffer  = 4 << 20
	sequentialBuffers = 3
)

// Sequential writes a file in order, past the page cache: the bytes need no pages of their own, and do not push out what
// other programs read again. One goroutine uses it.
type Sequential struct {
	f       *os.File
	size    int64    // of the file
	mapping []byte   // with all buffers
	buf     []byte   // of whole blocks; filled by Write
	at      int64    // offset of buf in the file
	n       int      // bytes in buf
	empty   [][]byte // buffers that neither Write nor a transfer uses
	ended   chan transferred
	live    int   // transfers that have not ended
	err     error // the first one of a transfer
}

// transferred is a buffer whose transfer has ended.
type transferred struct {
	buf []byte
	err error
}

// NewSequential opens a file that has its final size and that nothing else writes. It returns nil if its file system is not
// a local one with direct transfers: a network writes faster with the page cache.
func NewSequential(path string, size int64) *Sequential {
	f := openDirect(path)
	if f == nil {
		return nil
	}
	memory, mapping, err := hugePages(sequentialBuffers * sequentialBuffer)
	if err != nil {
		f.Close()
		return nil
	}
	s := &Sequential{f: f, size: size, mapping: mapping, ended: make(chan transferred, sequentialBuffers)}
	for b := memory; len(b) > 0; b = b[sequentialBuffer:] {
		s.empty = append(s.empty, b[:sequentialBuffer:sequentialBuffer])
	}
	s.take()
	return s
}

// Next returns the offset of the next Write.
func (s *Sequential) Next() int64 { return s.at + int64(s.n) }

// Write writes p after the bytes of earlier calls. They reach the file later, at the latest by Flush, and a later call returns the
// error if they do not.
func (s *Sequential) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		n := copy(s.buf[s.n:], p)
		s.n += n
		if s.n == len(s.buf) {
			s.begin(s.buf)
			s.take()
		}
		if s.err != nil {
			return written, s.err
		}
		written, p = written+n, p[n:]
	}
	return written, nil
}

// begin begins the transfer of b, the first bytes of buf, and moves on to the bytes that follow.
func (s *Sequential) begin(b []byte) {
	at := s.at
	s.at, s.n = s.Next(), 0
	s.live++
	go func() { s.ended <- transferred{b[:cap(b)], s.transfer(b, at)} }()
}

// take makes an empty buffer the one that Write fills.
func (s *Sequential) take() {
	if len(s.empty) == 0 {
		s.wait()
	}
	last := len(s.empty) - 1
	s.buf, s.empty = s.empty[last], s.empty[:last]
}

// wait waits for the end of a transfer.
func (s *Sequential) wait() {
	t := <-s.ended
	s.live--
	s.empty = append(s.empty, t.buf)
	if s.err == nil {
		s.err = t.err
	}
}

func (s *Sequential) transfer(b []byte, at int64) error {
	_, err := s.f.WriteAt(b, at)
	if errors.Is(err, syscall.EINVAL) { // the device has larger blocks
		if err = clearDirect(s.f); err == nil {
			_, err = s.f.WriteAt(b, at)
		}
	}
	return err
}

// Flush writes what is left. The bytes of the file after Next are zero then, up to its size. It is the last write.
func (s *Sequential) Flush() error {
	rest := s.n > 0
	if rest {
		whole := (s.n + Block - 1) / Block * Block
		clear(s.buf[s.n:whole])
		s.begin(s.buf[:whole])
		s.buf = nil
	}
	for s.live > 0 {
		s.wait()
	}
	if s.err != nil || !rest {
		return s.err
	}
	return s.f.Truncate(s.size) // the last block may have passed the end
}

// Close closes the file. Bytes that Flush did not write are lost.
func (s *Sequential) Close() error {
	for s.live > 0 {
		s.wait()
	}
	unmap(s.mapping)
	return s.f.Close()
}
