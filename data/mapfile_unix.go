//go:build unix

package data

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file for reading. unmap is to be called once.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map: %w", err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}

// readAhead starts to read bytes lo to hi of a mapped file from the disk and does not wait.
func readAhead(data []byte, lo, hi int64) error {
	lo -= lo % int64(os.Getpagesize())
	return unix.Madvise(data[lo:hi], unix.MADV_WILLNEED)
}
