package data

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"

	"trireme/internal/disk"
)

// spool buffers bytes in an unnamed file in dir, to be read once later. The first write creates it.
type spool struct {
	dir  string
	f    *os.File
	w    *bufio.Writer
	size int64
	word [8]byte
}

func (s *spool) Write(b []byte) (int, error) {
	if s.f == nil {
		f, err := disk.Unnamed(s.dir)
		if err != nil {
			return 0, err
		}
		s.f, s.w = f, bufio.NewWriterSize(f, 1<<16)
	}
	n, err := s.w.Write(b)
	s.size += int64(n)
	return n, err
}

func (s *spool) uint64(v uint64) error {
	binary.LittleEndian.PutUint64(s.word[:], v)
	_, err := s.Write(s.word[:])
	return err
}

func (s *spool) int32(v int32) error {
	binary.LittleEndian.PutUint32(s.word[:], uint32(v))
	_, err := s.Write(s.word[:4])
	return err
}

func (s *spool) fill(n int64, b byte) error {
	var block [4096]byte
	for i := range block {
		block[i] = b
	}
	for n > 0 {
		k, err := s.Write(block[:min(n, int64(len(block)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// copyTo copies the contents to w, padded with zeros to a multiple of 8 bytes.
func (s *spool) copyTo(w io.Writer) error {
	if s.f == nil {
		return nil
	}
	if err := s.fill(-s.size&7, 0); err != nil {
		return err
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, s.f)
	return err
}

func (s *spool) close() {
	if s.f != nil {
		s.f.Close()
	}
}

// bitSpool is a spool of bits, least significant first.
type bitSpool struct {
	spool
	bits int64
	last byte
}

func (s *bitSpool) add(one bool) error {
	if one {
		s.last |= 1 << (s.bits & 7)
	}
	s.bits++
	if s.bits&7 != 0 {
		return nil
	}
	_, err := s.Write([]byte{s.last})
	s.last = 0
	return err
}

func (s *bitSpool) extend(n int64, one bool) error {
	for ; n > 0 && s.bits&7 != 0; n-- {
		if err := s.add(one); err != nil {
			return err
		}
	}
	b := byte(0)
	if one {
		b = 0xff
	}
	if err := s.fill(n/8, b); err != nil {
		return err
	}
	s.bits += n &^ 7
	for range n & 7 {
		if err := s.add(one); err != nil {
			return err
		}
	}
	return nil
}

// copyTo pads the last byte.
func (s *bitSpool) copyTo(w io.Writer) error {
	if err := s.extend(-s.bits&7, false); err != nil {
		return err
	}
	return s.spool.copyTo(w)
}
