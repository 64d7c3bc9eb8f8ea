package safetensors

import (
	"fmt"
	"io"
	"os"
	"sync"

	"trireme/fault"
	"trireme/internal/filekind"
	"trireme/tensor"
)

// File reads ranges of the tensors of one file. Its methods are safe for concurrent use.
type File struct {
	name   string
	r      io.ReaderAt
	header *header
	byName map[string]int
	close  func() error
}

// Open opens the file at path and checks its header.
func Open(path string) (*File, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() { // opening a pipe would block
		return nil, notFile(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return openFile(path, f)
}

// openFile takes ownership of f.
func openFile(name string, f *os.File) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if !st.Mode().IsRegular() {
		f.Close()
		return nil, notFile(name)
	}
	file, err := NewFile(name, f, st.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	file.close = f.Close
	return file, nil
}

func notFile(name string) error {
	return fault.Try(fmt.Errorf("safetensors: %s is not a file", name), "a directory with the model's weights")
}

// NewFile reads from r, which has size bytes; errors use name. Closing the File does not close r.
func NewFile(name string, r io.ReaderAt, size int64) (*File, error) {
	h, err := readHeader(r, size)
	if err != nil {
		head := make([]byte, min(size, filekind.HeadSize))
		if readFull(r, head, 0) == nil {
			if k, ok := filekind.Detect(name, head); ok {
				return nil, fault.Try(fmt.Errorf("safetensors: %s is %s", name, k.Name), "%s", k.Try)
			}
		}
		return nil, fault.Try(fmt.Errorf("safetensors: %s: %w", name, err), "download or write it again")
	}
	f := &File{name: name, r: r, header: h, byName: make(map[string]int, len(h.infos))}
	for i, t := range h.infos {
		f.byName[t.Name] = i
	}
	return f, nil
}

// Name returns the path passed to Open.
func (f *File) Name() string { return f.name }

// Tensors lists the tensors in file order. The caller must not modify it.
func (f *File) Tensors() []Info { return f.header.infos }

// Metadata returns the header's __metadata__, or nil.
func (f *File) Metadata() map[string]string { return f.header.metadata }

// Find returns the named tensor.
func (f *File) Find(name string) (Info, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Info{}, false
	}
	return f.header.infos[i], true
}

// ReadRange reads elements [first, first+count) of a tensor into dst, which has exactly their size.
func (f *File) ReadRange(name string, first, count int, dst []byte) error {
	t, err := f.lookup(name, first, count)
	if err != nil {
		return err
	}
	size := t.Type.Size()
	if len(dst) != count*size {
		return fmt.Errorf("safetensors: %s: %d elements of %v do not match a buffer of %d bytes", f.name, count, t, len(dst))
	}
	return f.readAt(t, first*size, dst)
}

// ReadAs is ReadRange with conversion to dt (see Convert).
func (f *File) ReadAs(name string, dt tensor.DType, first, count int, dst []byte) error {
	t, err := f.lookup(name, first, count)
	if err != nil {
		return err
	}
	from, ok := t.Type.DType()
	if !ok || !Convertible(from, dt) {
		return fmt.Errorf("safetensors: %s: %v cannot be read as %v", f.name, t, dt)
	}
	if len(dst) != count*dt.Size() {
		return fmt.Errorf("safetensors: %s: %d elements of %v do not match a buffer of %d bytes", f.name, count, dt, len(dst))
	}
	if from == dt {
		return f.readAt(t, first*dt.Size(), dst)
	}
	buf := scratch.Get().(*[scratchBytes]byte)
	defer scratch.Put(buf)
	per := scratchBytes / from.Size()
	for done := 0; done < count; {
		n := min(per, count-done)
		src := buf[:n*from.Size()]
		if err := f.readAt(t, (first+done)*from.Size(), src); err != nil {
			return err
		}
		Convert(dst[done*dt.Size():(done+n)*dt.Size()], dt, src, from)
		done += n
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

const scratchBytes = 256 << 10 // fits the L2 cache between read and convert

var scratch = sync.Pool{New: func() any { return new([scratchBytes]byte) }}

func (f *File) lookup(name string, first, count int) (Info, error) {
	t, ok := f.Find(name)
	if !ok {
		return t, fmt.Errorf("safetensors: %s has no tensor %q", f.name, name)
	}
	if n := t.Elems(); first < 0 || count < 0 || first > n || count > n-first {
		return t, fmt.Errorf("safetensors: %s: elements [%d,%d) are out of range of %v", f.name, first, first+count, t)
	}
	return t, nil
}

func (f *File) readAt(t Info, at int, dst []byte) error {
	if err := readFull(f.r, dst, t.Offset+int64(at)); err != nil {
		return fmt.Errorf("safetensors: %s: read %v: %w", f.name, t, err)
	}
	return nil
}
