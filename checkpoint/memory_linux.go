package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// hostMemory is a file system in one unnamed memory file, which a launcher makes and its processes inherit. The
// files live until the launcher and all of them have ended, however they end.
//
// The first two areas of the file each have room for an index, and the others for a file. A change writes the index
// to the area that has the older one, so a process that is killed in the middle leaves the one before. The processes
// lock the file for each change; the kernel releases the lock of one that is killed.
type hostMemory struct {
	mu sync.Mutex // this descriptor
	f  *os.File
}

var _ fileSystem = (*hostMemory)(nil)

const (
	areaBytes = 1 << 44 // of the address space of the file; unused parts take no memory
	firstArea = 2       // of files
	maxAreas  = 1 << 18
	maxIndex  = 1 << 28
	indexHead = 20 // checksum in 8 bytes, size in 8, and their checksum
)

// index is the state of the file system.
type index struct {
	Sequence uint64  `json:"sequence"`
	Entries  []entry `json:"entries"`
}

// entry is a directory, or a file in an area.
type entry struct {
	Path     string    `json:"path"`
	Area     int       `json:"area,omitzero"` // 0: a directory
	Size     int64     `json:"size,omitzero"`
	Modified time.Time `json:"modified,omitzero"`
}

// openHostMemory opens f again, because locks are of an open file and processes inherit the same one.
func openHostMemory(f *os.File) (*hostMemory, error) {
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: the memory of the host: %w", err)
	}
	return &hostMemory{f: own}, nil
}

func (m *hostMemory) Close() error { return m.f.Close() }

// with calls f with the index, under the lock.
func (m *hostMemory) with(op, path string, f func(x *index, path string) error) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fd := int(m.f.Fd())
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(fd, unix.LOCK_EX)
	}
	if err == nil {
		defer unix.Flock(fd, unix.LOCK_UN)
		var x *index
		if x, err = m.read(); err == nil {
			err = f(x, filepath.Clean(path))
		}
	}
	if err != nil {
		return pathError(op, path, err)
	}
	return nil
}

func pathError(op, path string, err error) error { return &os.PathError{Op: op, Path: path, Err: err} }

// read returns the newer index; an empty one in a new file.
func (m *hostMemory) read() (newest *index, err error) {
	newest = &index{}
	st, err := m.f.Stat()
	if err != nil || st.Size() == 0 {
		return newest, err
	}
	for area := range int64(2) {
		head := make([]byte, indexHead)
		if n, err := m.f.ReadAt(head, area*areaBytes); n < len(head) {
			if err == io.EOF {
				continue
			}
			return nil, err
		}
		size := binary.LittleEndian.Uint64(head[8:])
		if binary.LittleEndian.Uint32(head[16:]) != crc32.Checksum(head[:16], castagnoli) || size > maxIndex || int64(size) > st.Size()-area*areaBytes-indexHead {
			continue
		}
		b := make([]byte, size)
		if n, _ := m.f.ReadAt(b, area*areaBytes+indexHead); n < len(b) || crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(head) {
			continue
		}
		x := &index{}
		if json.Unmarshal(b, x) == nil && x.Sequence%2 == uint64(area) && x.valid() && x.Sequence > newest.Sequence {
			newest = x
		}
	}
	return newest, nil
}

// valid reports whether each path is clean and there once, and each file is alone in its area.
func (x *index) valid() bool {
	if x.Sequence > math.MaxInt64 {
		return false
	}
	paths, areas := map[string]bool{}, map[int]bool{}
	for _, e := range x.Entries {
		switch {
		case e.Path != filepath.Clean(e.Path) || paths[e.Path]:
			return false
		case e.Area != 0 && (e.Area < firstArea || e.Area >= maxAreas || areas[e.Area]), e.Size < 0 || e.Size > areaBytes:
			return false
		}
		paths[e.Path], areas[e.Area] = true, true
	}
	return true
}

// write replaces the older index.
func (m *hostMemory) write(x *index) error {
	x.Sequence++
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	head := make([]byte, indexHead, indexHead+len(b))
	binary.LittleEndian.PutUint32(head, crc32.Checksum(b, castagnoli))
	binary.LittleEndian.PutUint64(head[8:], uint64(len(b)))
	binary.LittleEndian.PutUint32(head[16:], crc32.Checksum(head[:16], castagnoli))
	_, err = m.f.WriteAt(append(head, b...), int64(x.Sequence%2)*areaBytes)
	return err
}

func (x *index) find(path string) *entry {
	i := slices.IndexFunc(x.Entries, func(e entry) bool { return e.Path == path })
	if i < 0 {
		return nil
	}
	return &x.Entries[i]
}

// isDir reports whether path is a directory; the one that holds all others always is.
func (x *index) isDir(path string) bool {
	e := x.find(path)
	return path == filepath.Dir(path) || e != nil && e.Area == 0
}

// in reports whether an entry is path or in it.
func (e entry) in(path string) bool {
	return e.Path == path || strings.HasPrefix(e.Path, path+string(filepath.Separator))
}

// free returns an area without a file.
func (x *index) free() (int, error) {
	used := map[int]bool{}
	for _, e := range x.Entries {
		used[e.Area] = true
	}
	for area := firstArea; area < maxAreas; area++ {
		if !used[area] {
			return area, nil
		}
	}
	return 0, unix.ENOSPC
}

func (m *hostMemory) MkdirAll(path string) error {
	return m.with("mkdir", path, func(x *index, path string) error {
		for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
			if x.find(at) == nil {
				x.Entries = append(x.Entries, entry{Path: at})
			}
			if !x.isDir(at) {
				return unix.ENOTDIR
			}
		}
		return m.write(x)
	})
}

func (m *hostMemory) Create(path string) (file, error) {
	f := &memoryFile{m: m, path: filepath.Clean(path)}
	return f, m.with("open", path, func(x *index, path string) (err error) {
		switch e := x.find(path); {
		case x.isDir(path):
			return unix.EISDIR
		case e != nil:
			f.area, f.size = e.Area, e.Size
			return nil
		case !x.isDir(filepath.Dir(path)):
			return unix.ENOENT
		}
		if f.area, err = x.free(); err != nil {
			return err
		}
		x.Entries = append(x.Entries, entry{path, f.area, 0, time.Now()})
		return m.write(x)
	})
}

func (m *hostMemory) Open(path string) (file, error) {
	f := &memoryFile{m: m, path: filepath.Clean(path)}
	return f, m.with("open", path, func(x *index, path string) error {
		switch e := x.find(path); {
		case x.isDir(path):
			return errNoFile
		case e == nil:
			return unix.ENOENT
		default:
			f.area, f.size = e.Area, e.Size
			return nil
		}
	})
}

func (m *hostMemory) ReadDir(path string) (names []string, err error) {
	err = m.with("readdir", path, func(x *index, path string) error {
		if !x.isDir(path) {
			return unix.ENOENT
		}
		for _, e := range x.Entries {
			if filepath.Dir(e.Path) == path {
				names = append(names, filepath.Base(e.Path))
			}
		}
		return nil
	})
	return names, err
}

func (m *hostMemory) Rename(from, to string) error {
	return m.with("rename", from, func(x *index, from string) error {
		to := filepath.Clean(to)
		switch {
		case x.find(from) == nil || !x.isDir(filepath.Dir(to)):
			return unix.ENOENT
		case x.find(to) != nil:
			return unix.EEXIST
		}
		for i, e := range x.Entries {
			if e.in(from) {
				x.Entries[i].Path = to + e.Path[len(from):]
			}
		}
		return m.write(x)
	})
}

// RemoveAll frees the memory of the files. If the process is killed before, later files have it.
func (m *hostMemory) RemoveAll(path string) error {
	return m.with("remove", path, func(x *index, path string) error {
		var gone []entry
		x.Entries = slices.DeleteFunc(x.Entries, func(e entry) bool {
			if e.in(path) {
				gone = append(gone, e)
			}
			return e.in(path)
		})
		if len(gone) == 0 {
			return nil
		}
		err := m.write(x)
		for _, e := range gone {
			if err == nil && e.Area != 0 {
				err = unix.Fallocate(int(m.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(e.Area)*areaBytes, areaBytes)
			}
		}
		return err
	})
}

func (m *hostMemory) Modified(path string) (t time.Time, err error) {
	err = m.with("stat", path, func(x *index, path string) error {
		e := x.find(path)
		if e == nil {
			return unix.ENOENT
		}
		t = e.Modified
		return nil
	})
	return t, err
}

// SyncDir does nothing: memory outlives no loss of power.
func (m *hostMemory) SyncDir(string) error { return nil }

// memoryFile is an open file of a hostMemory, used by one process at a time.
type memoryFile struct {
	m    *hostMemory
	path string
	area int
	size int64
}

var errOutside = errors.New("outside the file")

// Truncate sets the size. The bytes of a new file are not defined.
func (f *memoryFile) Truncate(size int64) error {
	return f.m.with("truncate", f.path, func(x *index, path string) error {
		e := x.find(path)
		switch {
		case e == nil || e.Area != f.area:
			return unix.ENOENT
		case size < 0 || size > areaBytes:
			return unix.EFBIG
		}
		e.Size, f.size = size, size
		return f.m.write(x)
	})
}

func (f *memoryFile) Size() (int64, error) { return f.size, nil }

func (f *memoryFile) WriteAt(b []byte, at int64) (int, error) {
	if at < 0 || at > f.size-int64(len(b)) {
		return 0, pathError("write", f.path, errOutside)
	}
	return f.m.f.WriteAt(b, int64(f.area)*areaBytes+at)
}

func (f *memoryFile) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 {
		return 0, pathError("read", f.path, errOutside)
	}
	within := b[:min(int64(len(b)), max(0, f.size-at))]
	n, err := f.m.f.ReadAt(within, int64(f.area)*areaBytes+at)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// Sync does nothing: see SyncDir.
func (f *memoryFile) Sync() error { return nil }

func (f *memoryFile) Close() error { return nil }
