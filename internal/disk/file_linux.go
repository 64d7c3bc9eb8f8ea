package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func createUnnamed(dir string) (f *os.File, named string, err error) {
	f, err = os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err == nil {
		return f, "", nil
	}
	return createNamed(dir) // not supported by the file system or kernel
}

func setDirect(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_DIRECT)
	}
	return err == nil
}

// openDirect opens a file for direct writes; nil where they are not supported, or may be slow.
func openDirect(path string) *os.File {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil || s.Type != unix.EXT4_SUPER_MAGIC && s.Type != unix.XFS_SUPER_MAGIC {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return nil
	}
	return f
}

func clearDirect(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	return err
}

func allocate(f *os.File, off, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(off + n)
	}
	return err
}

func pages(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// hugePages returns n bytes that are in huge pages if the system has them: a transfer from them is one request of the device,
// one from small pages is several. mapping is for unmap.
func hugePages(n int) (b, mapping []byte, err error) {
	const around = 2 << 20 // a huge page; the first and the last one of the mapping may not be whole
	if mapping, err = pages(n + 2*around); err != nil {
		return nil, nil, err
	}
	_ = unix.Madvise(mapping, unix.MADV_HUGEPAGE) // advice only
	return mapping[around : around+n : around+n], mapping, nil
}

func unmap(b []byte) { _ = unix.Munmap(b) } // from pages: cannot fail

func free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
