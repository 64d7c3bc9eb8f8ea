package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	direct "trireme/internal/disk"
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
	return &diskFile{File: f}, nil
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

type diskFile struct {
	*os.File
	past *direct.Sequential // writes past the page cache; nil: through it
}

// alone is a file that can be written faster if no other process writes it.
type alone interface{ Alone() }

// pastCache is the size from which files are written past the page cache.
const pastCache = 4 << 20

func (f *diskFile) Alone() {
	if size, err := f.Size(); err == nil && size >= pastCache {
		f.past = direct.NewSequential(f.Name(), size)
	}
}

func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	if f.past != nil && at == f.past.Next() {
		return f.past.Write(b)
	}
	if err := f.intoCache(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

// intoCache ends writing past the page cache.
func (f *diskFile) intoCache() error {
	if f.past == nil {
		return nil
	}
	err := errors.Join(f.past.Flush(), f.past.Close())
	f.past = nil
	return err
}

func (f *diskFile) Sync() error {
	if err := f.intoCache(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *diskFile) Close() error {
	if f.past == nil {
		return f.File.Close()
	}
	return errors.Join(f.past.Close(), f.File.Close()) // without Sync: the file is not complete
}

func (f *diskFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
