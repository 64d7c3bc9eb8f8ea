package checkpoint

import (
	"errors"
	"fmt"

	"trireme/internal/objectstore"
)

// objectFile is an object as a file: written once, from its first byte to its last, or read.
type objectFile struct {
	fs   objects
	path objectstore.Path
	w    *objectstore.Writer
	at   int64 // the next byte to write
	r    *objectstore.Object
}

var errOrder = errors.New("objects are written once and in order")

func (f *objectFile) Truncate(size int64) error {
	if f.w != nil || f.r != nil {
		return errOrder
	}
	create := f.fs.c.Create
	if f.fs.copied != nil {
		create = f.fs.c.Continue
	}
	f.w = create(f.fs.ctx, f.path, size)
	return nil
}

func (f *objectFile) WriteAt(b []byte, off int64) (int, error) {
	if f.w == nil || off != f.at {
		return 0, fmt.Errorf("%s at byte %d: %w", f.path, off, errOrder)
	}
	n, err := f.w.Write(b)
	f.at += int64(n)
	return n, err
}

// Sync ends the object. It exists from then on.
func (f *objectFile) Sync() error {
	if f.w == nil {
		return errOrder
	}
	return f.w.Commit()
}

// kept is the number of bytes that an interrupted copy had sent.
func (f *objectFile) kept() int64 { return f.w.Kept() }

func (f *objectFile) ReadAt(b []byte, off int64) (int, error) {
	if f.r == nil {
		return 0, errOrder
	}
	return f.r.ReadAt(b, off)
}

func (f *objectFile) Size() (int64, error) {
	if f.r == nil {
		return 0, errOrder
	}
	return f.r.Info.Size, nil
}

func (f *objectFile) Close() error {
	if f.w != nil {
		return f.w.Close()
	}
	if f.r != nil {
		return f.r.Close()
	}
	return nil
}
