package torchfile

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"trireme/fault"
	"trireme/internal/filekind"
	"trireme/internal/pickle"
)

// maxPickle bounds data.pkl, which has no tensor bytes: a name and a shape per tensor.
const maxPickle = 256 << 20

// Options configures Open.
type Options struct {
	// Allow accepts calls of further globals, which become a *pickle.Object. nil accepts none.
	Allow func(pickle.Global) bool
}

// File is an open file. Its tensors are safe for concurrent use until Close.
type File struct {
	name     string
	r        io.ReaderAt
	close    func() error
	entries  map[string]*zip.File // without the common folder
	storages map[string]*storage
	value    any
}

// Open opens a file of torch.save.
func Open(name string, o Options) (*File, error) {
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() { // opening a pipe would block
		return nil, fmt.Errorf("torchfile: %s is not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("torchfile: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("torchfile: %w", err)
	}
	file, err := New(name, f, st.Size(), o)
	if err != nil {
		f.Close()
		return nil, err
	}
	file.close = f.Close
	return file, nil
}

// New reads from r, which has size bytes; errors use name. Closing the File does not close r.
func New(name string, r io.ReaderAt, size int64, o Options) (*File, error) {
	head := make([]byte, min(size, filekind.HeadSize))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("torchfile: %s: %w", name, err)
	}
	if !bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return nil, notZip(name, head)
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fault.Try(fmt.Errorf("torchfile: %s: a truncated or damaged file of torch.save (%w)", name, err), "download or write it again")
	}
	f := &File{name: name, r: r, storages: map[string]*storage{}}
	if err := f.list(z.File); err != nil {
		return nil, fmt.Errorf("torchfile: %s: %w", name, err)
	}
	b, err := f.read("data.pkl", maxPickle)
	if err != nil {
		return nil, fmt.Errorf("torchfile: %s: %w", name, err)
	}
	f.value, _, err = pickle.Decode(b, pickle.Config{Persistent: f.persistent, Call: rebuilder(o.Allow)})
	if err != nil {
		return nil, explain(fmt.Errorf("torchfile: %s: data.pkl, %w", name, err))
	}
	return f, nil
}

// explain adds what to do about a refused global.
func explain(err error) error {
	var refused *pickle.Refused
	if errors.As(err, &refused) {
		return fault.Try(err, "a state dict: torch.save(model.state_dict(), FILE); nothing in this file was run")
	}
	return err
}

func notZip(name string, head []byte) error {
	if len(head) > 2 && head[0] == 0x80 && head[1] == 2 && bytes.HasPrefix(head[2:], []byte{0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19}) {
		return fault.Try(fmt.Errorf("torchfile: %s is in the format of torch.save before PyTorch 1.6", name), "python -c \"import torch; torch.save(torch.load('%s', weights_only=True), '%s')\"", name, name)
	}
	if k, ok := filekind.Detect(name, head); ok {
		return fault.Try(fmt.Errorf("torchfile: %s is %s, not a file of torch.save", name, k.Name), "%s", k.Try)
	}
	return fmt.Errorf("torchfile: %s is not a file of torch.save", name)
}

// list checks the names of the entries, so that a damaged one is not taken for an absent one.
func (f *File) list(all []*zip.File) error {
	folder, found := "", false
	for _, e := range all {
		if dir, ok := strings.CutSuffix(e.Name, "/data.pkl"); ok && !found {
			folder, found = dir+"/", true
		}
	}
	if !found {
		return errors.New("it has no data.pkl: not a file of torch.save, or damaged")
	}
	f.entries = make(map[string]*zip.File, len(all))
	for _, e := range all {
		name, inside := strings.CutPrefix(e.Name, folder)
		known := strings.HasPrefix(name, "data/") || strings.HasPrefix(name, ".")
		switch name {
		case "data.pkl", "version", "byteorder":
			known = true
		case "constants.pkl":
			return fault.Try(errors.New("it is a TorchScript program, not a state dict"), "torch.save(torch.jit.load(FILE).state_dict(), FILE)")
		}
		switch {
		case !inside || !known || path.Clean(name) != name:
			return fmt.Errorf("unexpected entry %q", e.Name)
		case e.Method != zip.Store:
			return fmt.Errorf("entry %s is compressed, which torch.save never does", name)
		case e.CompressedSize64 != e.UncompressedSize64:
			return fmt.Errorf("entry %s has two sizes", name)
		case f.entries[name] != nil:
			return fmt.Errorf("entry %s exists twice", name)
		}
		f.entries[name] = e
	}
	if e := f.entries["byteorder"]; e != nil {
		b, err := f.read("byteorder", 16)
		if err != nil {
			return err
		}
		if string(b) != "little" {
			return fault.Try(fmt.Errorf("its byte order is %q", b), "saving it on a little-endian machine")
		}
	}
	return nil
}

// read reads a small entry and verifies its checksum.
func (f *File) read(name string, limit uint64) ([]byte, error) {
	e := f.entries[name]
	if e.UncompressedSize64 > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, e.UncompressedSize64, limit)
	}
	at, err := e.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// The section ends with the file, so a false size allocates no more than the file has.
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.NewSectionReader(f.r, at, int64(e.UncompressedSize64))); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if uint64(b.Len()) != e.UncompressedSize64 || crc32.ChecksumIEEE(b.Bytes()) != e.CRC32 {
		return nil, damaged(name)
	}
	return b.Bytes(), nil
}

func damaged(name string) error {
	return fault.Try(fmt.Errorf("the bytes of %s do not match their checksum", name), "download or write it again")
}

// Name returns the file's path.
func (f *File) Name() string { return f.name }

// Value returns the saved value: package pickle's types, with *Tensor for tensors.
func (f *File) Value() any { return f.value }

// Close closes the file.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// storage is the bytes of one or more tensors.
type storage struct {
	file *File
	name string // entry
	elem string // class, such as FloatStorage
	at   int64
	size int64 // bytes
	crc  uint32

	verify sync.Once
	err    error
}

// check verifies the checksum, at the first call.
func (s *storage) check() error {
	s.verify.Do(func() {
		sum := crc32.NewIEEE()
		if n, err := io.Copy(sum, io.NewSectionReader(s.file.r, s.at, s.size)); err != nil {
			s.err = err
		} else if n != s.size || sum.Sum32() != s.crc {
			s.err = damaged(s.name)
		}
	})
	return s.err
}

// persistent makes a storage of ("storage", class, key, device, elements).
func (f *File) persistent(id any) (any, error) {
	t, ok := id.(pickle.Tuple)
	if !ok || len(t) != 5 || t[0] != any("storage") {
		return nil, errors.New("a persistent id is not that of a storage")
	}
	class, ok1 := t[1].(pickle.Global)
	key, ok2 := t[2].(string)
	if !ok1 || !ok2 || class.Module != "torch" && class.Module != "torch.storage" {
		return nil, errors.New("a persistent id is not that of a storage")
	}
	if s := f.storages[key]; s != nil {
		if s.elem != class.Name {
			return nil, fmt.Errorf("storage %s is a %s and a %s", key, s.elem, class.Name)
		}
		return s, nil
	}
	e := f.entries["data/"+key]
	if e == nil {
		return nil, fmt.Errorf("storage %s is not in the file", key)
	}
	at, err := e.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("storage %s: %w", key, err)
	}
	s := &storage{file: f, name: "data/" + key, elem: class.Name, at: at, size: int64(e.UncompressedSize64), crc: e.CRC32}
	f.storages[key] = s
	return s, nil
}
