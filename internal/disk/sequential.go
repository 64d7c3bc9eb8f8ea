package disk

import (
	"errors"
	"os"
	"syscall"
)

// sequentialBuffer is the size of a Sequential's transfers.
const sequentialBuffer = 2 << 20

// Sequential writes a file in order, past the page cache: the bytes need no pages of their own, and do not push out what
// other programs read again. One goroutine uses it.
type Sequential struct {
	f    *os.File
	size int64  // of the file
	buf  []byte // of whole blocks
	at   int64  // offset of buf in the file
	n    int    // bytes in buf
}

// NewSequential opens a file that has its final size and that nothing else writes. It returns nil if its file system is not
// a local one with direct transfers: a network writes faster with the page cache.
func NewSequential(path string, size int64) *Sequential {
	f := openDirect(path)
	if f == nil {
		return nil
	}
	buf, err := pages(sequentialBuffer)
	if err != nil {
		f.Close()
		return nil
	}
	return &Sequential{f: f, size: size, buf: buf}
}

// Next returns the offset of the next Write.
func (s *Sequential) Next() int64 { return s.at + int64(s.n) }

// Write writes p after the bytes of earlier calls. They may reach the file in a later call.
func (s *Sequential) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		n := copy(s.buf[s.n:], p)
		s.n += n
		if s.n == len(s.buf) {
			if err := s.transfer(s.buf); err != nil {
				return written, err
			}
			s.at, s.n = s.Next(), 0
		}
		written, p = written+n, p[n:]
	}
	return written, nil
}

func (s *Sequential) transfer(b []byte) error {
	_, err := s.f.WriteAt(b, s.at)
	if errors.Is(err, syscall.EINVAL) { // the device has larger blocks
		if err = clearDirect(s.f); err == nil {
			_, err = s.f.WriteAt(b, s.at)
		}
	}
	return err
}

// Flush writes what is left. The bytes of the file after Next are zero then, up to its size. It is the last write.
func (s *Sequential) Flush() error {
	if s.n == 0 {
		return nil
	}
	whole := (s.n + Block - 1) / Block * Block
	clear(s.buf[s.n:whole])
	if err := s.transfer(s.buf[:whole]); err != nil {
		return err
	}
	s.at, s.n = s.Next(), 0
	return s.f.Truncate(s.size) // the last block may have passed the end
}

// Close closes the file. Bytes that Flush did not write are lost.
func (s *Sequential) Close() error {
	unmap(s.buf)
	return s.f.Close()
}
