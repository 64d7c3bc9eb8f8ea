package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"trireme/internal/durable"
)

// fileSystem is the file operations of saving and loading. Tests replace it by one that fails,
// fills up and loses power.
type fileSystem interface {
	fileStore
	MkdirAll(path string) error
	Rename(from, to string) error
	RemoveAll(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(path string) error
}

// file is written in order, after Truncate to its size, or read. After Sync it is durable. Only ranks that share a file of
// a file system write parts of it in any order.
type file interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Size() (int64, error)
	Sync() error
	Close() error
}

// disk is the real file system.
type disk struct{}

var _ fileSystem = disk{}

func (disk) MkdirAll(path string) error   { return os.MkdirAll(path, 0o755) }
func (disk) Rename(from, to string) error { return os.Rename(from, to) }
func (disk) RemoveAll(path string) error  { return os.RemoveAll(path) }
func (disk) Create(path string) (file, error) {
	return opened(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644))
}

func (disk) Open(path string) (file, error) {
	// Opening a pipe without a writer would block forever.
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNoFile}
	}
	return opened(os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)) // O_NONBLOCK: it may have been replaced since Stat
}

var errNoFile = errors.New("not a regular file")

// opened avoids a non-nil file that holds a nil *os.File.
func opened(f *os.File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (disk) ReadDir(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (disk) Modified(path string) (time.Time, error) {
	st, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), nil
}

func (disk) SyncDir(path string) error { return durable.SyncDir(path) }

type diskFile struct{ *os.File }

func (f diskFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
