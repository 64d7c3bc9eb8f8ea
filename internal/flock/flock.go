// Package flock locks files between processes. The kernel releases a lock when its last holder exits.
package flock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trireme/fault"
)

// TryLock opens the file at path, creating it with mode perm, and locks it unless another process holds
// the lock. The file is open in either case; closing it releases the lock.
func TryLock(path string, perm fs.FileMode) (f *os.File, held bool, err error) {
	if f, err = Open(path, os.O_RDWR|os.O_CREATE, perm); err != nil {
		return nil, false, err
	}
	switch err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		return f, false, nil
	case err != nil:
		return nil, false, errors.Join(fault.Try(fmt.Errorf("lock %s: %w", path, err), "a directory on a file system that supports flock"), f.Close())
	}
	// If the file was removed or renamed meanwhile, this is not the lock of that name.
	named, err := os.Stat(path)
	opened, err2 := f.Stat()
	return f, err == nil && err2 == nil && os.SameFile(named, opened), nil
}

// Lock waits until no other process holds the lock, or until ctx is done. slow, if not nil, is called
// once after two seconds.
func Lock(ctx context.Context, path string, perm fs.FileMode, slow func()) (unlock func() error, err error) {
	for began := time.Now(); ; {
		f, held, err := TryLock(path, perm)
		if err != nil || held {
			return f.Close, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if slow != nil && time.Since(began) > 2*time.Second {
			slow()
			slow = nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", path, context.Cause(ctx))
		}
	}
}

// Locked reports whether another process holds the lock of an open file.
func Locked(f *os.File) bool {
	err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	}
	return errors.Is(err, unix.EWOULDBLOCK)
}

// Open opens a regular file; it refuses others and does not block on a pipe.
func Open(path string, flags int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fault.Try(fmt.Errorf("%s is not a regular file", path), "remove it")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
