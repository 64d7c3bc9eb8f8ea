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
	sums   *verifier // nil if the file has no checksums
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
	c, err := parseChecksums(h)
	if err != nil {
		return nil, fault.Try(fmt.Errorf("safetensors: %s: %w", name, err), "%s", damagedAdvice)
	}
	f := &File{name: name, r: r, header: h, byName: make(map[string]int, len(h.infos))}
	if c != nil {
		f.sums = newVerifier(c)
	}
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

// Checked reports whether the file has checksums, which reads compare.
func (f *File) Checked() bool { return f.sums != nil }

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
	i, t, err := f.lookup(name, first, count)
	if err != nil {
		return err
	}
	size := t.Type.Size()
	if len(dst) != count*size {
		return fmt.Errorf("safetensors: %s: %d elements of %v do not match a buffer of %d bytes", f.name, count, t, len(dst))
	}
	return f.readAt(i, first*size, dst)
}

// ReadAs is ReadRange with conversion to dt (see Convert).
func (f *File) ReadAs(name string, dt tensor.DType, first, count int, dst []byte) error {
	i, t, err := f.lookup(name, first, count)
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
		return f.readAt(i, first*dt.Size(), dst)
	}
	buf := scratch.Get().(*[BlockBytes]byte)
	defer scratch.Put(buf)
	per := BlockBytes / from.Size()
	for done := 0; done < count; {
		n := min(per-(first+done)%per, count-done) // up to the end of a block
		src := buf[:n*from.Size()]
		if err := f.readAt(i, (first+done)*from.Size(), src); err != nil {
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

var scratch = sync.Pool{New: func() any { return new([BlockBytes]byte) }}

// lookup returns a tensor and its index. Elements [first, first+count) must be in it.
func (f *File) lookup(name string, first, count int) (int, Info, error) {
	i, ok := f.byName[name]
	if !ok {
		return 0, Info{}, fmt.Errorf("safetensors: %s has no tensor %q", f.name, name)
	}
	t := f.header.infos[i]
	if n := t.Elems(); first < 0 || count < 0 || first > n || count > n-first {
		return 0, t, fmt.Errorf("safetensors: %s: elements [%d,%d) are out of range of %v", f.name, first, first+count, t)
	}
	return i, t, nil
}

// readAt reads bytes of tensor i from byte at on, and compares the checksum of each block that was not read before. Blocks are
// read as a whole the first time.
func (f *File) readAt(i, at int, dst []byte) error {
	t := f.header.infos[i]
	if f.sums == nil {
		return f.read(t, at, dst)
	}
	for len(dst) > 0 {
		k, in := at/BlockBytes, at%BlockBytes
		size := blockSize(t.Size, k)
		n := min(len(dst), size-in)
		var err error
		if block := f.sums.first[i] + k; n == size || f.sums.isGood(block) {
			if err = f.read(t, at, dst[:n]); err == nil && n == size {
				err = f.compare(block, t, at, dst[:n])
			}
		} else {
			err = f.readPart(block, t, at-in, size, dst[:n], in)
		}
		if err != nil {
			return err
		}
		at, dst = at+n, dst[n:]
	}
	return nil
}

// readPart reads a block of size bytes and copies the part of it from byte in on.
func (f *File) readPart(block int, t Info, at, size int, dst []byte, in int) error {
	buf := scratch.Get().(*[BlockBytes]byte)
	defer scratch.Put(buf)
	b := buf[:size]
	if err := f.read(t, at, b); err != nil {
		return err
	}
	if err := f.compare(block, t, at, b); err != nil {
		return err
	}
	copy(dst, b[in:])
	return nil
}

const damagedAdvice = "download or write it again; if another program changed its tensors, remove " + checksumKey + " from its metadata"

func (f *File) compare(block int, t Info, at int, b []byte) error {
	if f.sums.isGood(block) || f.sums.compare(block, b) {
		return nil
	}
	return fault.Try(fmt.Errorf("safetensors: %s: bytes [%d,%d) of %v do not match their checksum", f.name, at, at+len(b), t), "%s", damagedAdvice)
}

func (f *File) read(t Info, at int, dst []byte) error {
	if err := readFull(f.r, dst, t.Offset+int64(at)); err != nil {
		return fmt.Errorf("safetensors: %s: read %v: %w", f.name, t, err)
	}
	return nil
}
