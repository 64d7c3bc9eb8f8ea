package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// createUnnamed makes a file that no name leads to.
func createUnnamed(dir string) (f *os.File, named string, err error) {
	f, err = os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err == nil {
		return f, "", nil
	}
	return createNamed(dir) // file systems without such files, and old ones
}

// setDirect makes transfers of f go past the cache, where that can be.
func setDirect(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_DIRECT)
	}
	return err == nil
}

// clearDirect takes that back.
func clearDirect(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	return err
}

// allocate takes bytes [off, off+n) of the disk.
func allocate(f *os.File, off, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(off + n)
	}
	return err
}

// pages is memory that begins at a page.
func pages(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func unmap(b []byte) { _ = unix.Munmap(b) } // of what pages gave: it cannot fail

func free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
