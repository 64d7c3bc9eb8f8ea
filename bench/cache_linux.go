package main

import (
	"os"

	"golang.org/x/sys/unix"
)

const canDropCache = true

// dropCache removes a file, which is synced, from the page cache.
func dropCache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// useMemory touches n bytes and frees them. The host of a virtual machine may provide memory when it is first touched, at a
// fraction of the speed of memory, and take back what is free for some seconds.
func useMemory(n int) error {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // not everywhere
	for i := 0; i < n; i += os.Getpagesize() {
		b[i] = 1
	}
	return unix.Munmap(b)
}
