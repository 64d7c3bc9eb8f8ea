package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Block is the alignment of direct transfers, in bytes.
const Block = 4096

// Storage is the backing storage of a File.
type Storage interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// File is space in a directory. Reserve and Close are called by one goroutine. Ranges that share no block
// may be read and written concurrently.
type File struct {
	storage  Storage
	dir      string
	remove   string // the file's name, if it has one until Close
	direct   bool   // transfers are whole blocks
	end      int64
	allocate func(off, n int64) error // allocates bytes [off, off+n); nil if writing allocates

	transfers sync.WaitGroup // running
	mu        sync.Mutex     // guards bounce
	bounce    []byte         // for partial blocks; nil until needed
}

// Create makes a file in a directory, which it creates if needed.
func Create(dir string) (*File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	f, named, err := createUnnamed(dir)
	if err != nil {
		return nil, fmt.Errorf("disk: create a file in %s: %w", dir, err)
	}
	d := &File{storage: f, dir: dir, remove: named, direct: setDirect(f)}
	d.allocate = func(off, n int64) error { return allocate(f, off, n) }
	if d.direct && d.probe() != nil {
		d.direct = false
		err = clearDirect(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("disk: create a file in %s: %w", dir, err), d.Close())
	}
	return d, nil
}

// CheckDir makes and removes a file in a directory, or in its nearest existing parent. It leaves nothing.
func CheckDir(dir string) error {
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := Create(dir)
	if err != nil {
		return err
	}
	return f.Close()
}

// NewFile returns a File on other storage, with whole-block transfers if direct is true. Tests use
// storage that fails.
func NewFile(s Storage, dir string, direct bool) *File {
	return &File{storage: s, dir: dir, direct: direct}
}

// Unnamed makes a file without a name in dir ("": the directory for temporary files). It disappears when
// it is closed or the process exits.
func Unnamed(dir string) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	f, named, err := createUnnamed(dir)
	if err == nil && named != "" {
		err = fmt.Errorf("disk: %s cannot be removed while it is open", named)
		f.Close()
		os.Remove(named)
	}
	return f, err
}

// createNamed makes a file and removes its name, or else returns the name to remove at Close.
func createNamed(dir string) (f *os.File, named string, err error) {
	if f, err = os.CreateTemp(dir, ".trireme-*"); err != nil {
		return nil, "", err
	}
	if os.Remove(f.Name()) != nil {
		named = f.Name()
	}
	return f, named, nil
}

// probe tries a direct transfer: some file systems accept O_DIRECT but refuse transfers.
func (f *File) probe() error {
	b, err := pages(Block)
	if err != nil {
		return err
	}
	defer unmap(b)
	if _, err = f.storage.WriteAt(b, 0); err == nil {
		_, err = f.storage.ReadAt(b, 0)
	}
	return err
}

// Direct reports whether transfers bypass the page cache.
func (f *File) Direct() bool { return f.direct }

// Dir returns the directory of the file.
func (f *File) Dir() string { return f.dir }

// Section is n bytes of a File.
type Section struct {
	f      *File
	off, n int64
}

// Reserve allocates n zero bytes.
func (f *File) Reserve(n int64) (*Section, error) {
	s := &Section{f, f.end, n}
	whole := (n + Block - 1) / Block * Block
	if f.allocate != nil && n > 0 {
		if err := f.allocate(s.off, whole); err != nil {
			return nil, fmt.Errorf("disk: allocate %d more bytes in %s, with %d in use by this process: %w", whole, f.dir, f.end, err)
		}
	}
	f.end += whole
	return s, nil
}

// Close waits for transfers and frees the space.
func (f *File) Close() error {
	f.transfers.Wait()
	err := f.storage.Close()
	if f.remove != "" {
		err = errors.Join(err, os.Remove(f.remove))
	}
	if f.bounce != nil {
		unmap(f.bounce)
		f.bounce = nil
	}
	return err
}

// ReadAt reads len(p) bytes.
func (s *Section) ReadAt(p []byte, off int64) (int, error) {
	if err := s.check("read", len(p), off); err != nil {
		return 0, err
	}
	return s.f.done("read", len(p), s.f.read(p, s.off+off))
}

// WriteAt writes p.
func (s *Section) WriteAt(p []byte, off int64) (int, error) {
	if err := s.check("write", len(p), off); err != nil {
		return 0, err
	}
	return s.f.done("write", len(p), s.f.write(p, s.off+off))
}

func (s *Section) check(verb string, n int, off int64) error {
	if off < 0 || off+int64(n) > s.n {
		return fmt.Errorf("disk: %s bytes [%d,%d) of a section of %d", verb, off, off+int64(n), s.n)
	}
	return nil
}

func (f *File) done(verb string, n int, err error) (int, error) {
	if err != nil {
		return 0, fmt.Errorf("disk: %s %d bytes in %s: %w", verb, n, f.dir, err)
	}
	return n, nil
}

// read fills p from offset off. Reading beyond the end is an error.
func (f *File) read(p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	if !f.direct {
		return full(f.storage.ReadAt(p, off))
	}
	whole := len(p) &^ (Block - 1)
	if whole > 0 && off%Block == 0 {
		switch err := full(f.storage.ReadAt(p[:whole], off)); {
		case err == nil:
			p, off = p[whole:], off+int64(whole)
		case !errors.Is(err, syscall.EINVAL): // the memory is not page-aligned
			return err
		}
	}
	return f.bounced(p, off, false)
}

func full(_ int, err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (f *File) write(p []byte, off int64) error {
	if !f.direct {
		_, err := f.storage.WriteAt(p, off)
		return err
	}
	whole := len(p) &^ (Block - 1)
	if whole > 0 && off%Block == 0 {
		switch _, err := f.storage.WriteAt(p[:whole], off); {
		case err == nil:
			p, off = p[whole:], off+int64(whole)
		case !errors.Is(err, syscall.EINVAL):
			return err
		}
	}
	return f.bounced(p, off, true)
}

const bounceBytes = 256 << 10

// bounced transfers p through whole blocks. Partly written blocks are read first.
func (f *File) bounced(p []byte, off int64, write bool) error {
	if len(p) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bounce == nil {
		var err error
		if f.bounce, err = pages(bounceBytes); err != nil {
			return err
		}
	}
	for len(p) > 0 {
		first := off &^ (Block - 1)
		skip := int(off - first)
		n := min(len(p), len(f.bounce)-skip)
		b := f.bounce[:(skip+n+Block-1)&^(Block-1)]
		if !write || skip > 0 || len(b) > skip+n {
			got, err := f.storage.ReadAt(b, first)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if !write && got < skip+n {
				return io.ErrUnexpectedEOF
			}
			clear(b[got:])
		}
		if write {
			copy(b[skip:], p[:n])
			if _, err := f.storage.WriteAt(b, first); err != nil {
				return err
			}
		} else {
			copy(p, b[skip:skip+n])
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// Free returns the free bytes of the file system of a directory or its nearest existing parent; 0 if
// unknown.
func Free(dir string) int64 {
	for {
		if n, err := free(dir); err == nil {
			return n
		}
		up := filepath.Dir(dir)
		if up == dir {
			return 0
		}
		dir = up
	}
}
