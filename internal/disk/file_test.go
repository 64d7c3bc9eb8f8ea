package disk

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// memoryStorage is Storage that refuses partial blocks, as O_DIRECT does.
type memoryStorage struct {
	mu    sync.Mutex
	bytes []byte
	fail  func(op string, off int64) error // nil: nothing fails
	whole bool
}

func (m *memoryStorage) refuse(op string, n int, off int64) error {
	if m.whole && (n%Block != 0 || off%Block != 0) {
		return syscall.EINVAL
	}
	if m.fail != nil {
		return m.fail(op, off)
	}
	return nil
}

func (m *memoryStorage) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse("read", len(p), off); err != nil {
		return 0, err
	}
	if off >= int64(len(m.bytes)) {
		return 0, io.EOF
	}
	n := copy(p, m.bytes[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memoryStorage) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse("write", len(p), off); err != nil {
		return 0, err
	}
	if end := int(off) + len(p); end > len(m.bytes) {
		m.bytes = append(m.bytes, make([]byte, end-len(m.bytes))...)
	}
	return copy(m.bytes[off:], p), nil
}

func (m *memoryStorage) Close() error { return nil }

// Sections return what was written at any offset and length and do not overlap, in a real file, with whole
// blocks only, and with any bytes.
func TestSections(t *testing.T) {
	defer goleak.VerifyNone(t)
	made := map[string]func(t *rapid.T) *File{
		"file": func(rt *rapid.T) *File {
			f, err := Create(t.TempDir())
			if err != nil {
				rt.Fatal(err)
			}
			return f
		},
		"blocks": func(*rapid.T) *File { return NewFile(&memoryStorage{whole: true}, "memory", true) },
		"bytes":  func(*rapid.T) *File { return NewFile(&memoryStorage{}, "memory", false) },
	}
	for name, open := range made {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			f := open(t)
			defer f.Close()
			type section struct {
				s    *Section
				want []byte
			}
			var all []section
			for range 3 {
				n := rapid.IntRange(0, 3*Block+7).Draw(t, "bytes")
				s, err := f.Reserve(int64(n))
				if err != nil {
					t.Fatal(err)
				}
				zero := make([]byte, n)
				if name != "file" { // storage of a test has no space taken
					if _, err := s.WriteAt(zero, 0); err != nil {
						t.Fatal(err)
					}
				}
				all = append(all, section{s, zero})
			}
			for range rapid.IntRange(1, 12).Draw(t, "writes") {
				at := rapid.SampledFrom(all).Draw(t, "section")
				lo := rapid.IntRange(0, len(at.want)).Draw(t, "lo")
				hi := rapid.IntRange(lo, len(at.want)).Draw(t, "hi")
				p := at.want[lo:hi]
				for i := range p {
					p[i] = byte(rapid.IntRange(1, 255).Draw(t, "byte"))
					if i > 3 {
						copy(p[i:], bytes.Repeat(p[:i], len(p)/i+1))
						break
					}
				}
				if err := at.s.StartWrite(bytes.Clone(p), int64(lo)).Wait(); err != nil {
					t.Fatal(err)
				}
			}
			for _, at := range all {
				lo := rapid.IntRange(0, len(at.want)).Draw(t, "lo")
				got := make([]byte, len(at.want)-lo)
				if err := at.s.StartRead(got, int64(lo)).Wait(); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, at.want[lo:]) {
					t.Fatalf("from byte %d on %d bytes differ", lo, len(got))
				}
				if _, err := at.s.ReadAt(make([]byte, 2), int64(len(at.want))-1); err == nil {
					t.Fatal("a section is read beyond its end")
				}
			}
		}))
	}
}

// Many transfers of pages run concurrently, as in an optimizer.
func TestAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	f, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("past the cache: %t", f.Direct())
	const n, groups = 5*Block + 300, 16
	s, err := f.Reserve(groups * 6 * Block)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := pages(groups * 6 * Block)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap(mem)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range mem {
		mem[i] = byte(rng.Uint32())
	}
	want := bytes.Clone(mem)
	for _, write := range []bool{true, false} {
		var under []*Transfer
		for g := range groups {
			p := mem[g*6*Block:][:n]
			if write {
				under = append(under, s.StartWrite(p, int64(g*6*Block)))
			} else {
				clear(p)
				under = append(under, s.StartRead(p, int64(g*6*Block)))
			}
		}
		for _, u := range under {
			if err := u.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(mem, want) {
		t.Error("data read differs")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// The directory of an open file is empty, and Close frees the space.
func TestNothingIsLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if Free(dir) <= 0 {
		t.Log("the system does not say what is free")
	}
	f, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Reserve(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s.StartWrite(make([]byte, 1<<20), 0) // Close waits for it
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 && f.remove == "" {
		t.Errorf("%v lies there, %v", left, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(blocked); err == nil {
		t.Error("a file is a directory")
	}
}

// CheckDir tests a missing directory in its parent and leaves nothing.
func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	if err := CheckDir(filepath.Join(dir, "a", "b")); err != nil {
		t.Errorf("a directory that can be made: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("there are %v; %v", left, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{file, filepath.Join(file, "a", "b")} {
		if err := CheckDir(at); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// Wait returns the error of any transfer and of a short read.
func TestFailures(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, direct := range []bool{false, true} {
		for _, n := range []int{100, Block, Block + 1} {
			m := &memoryStorage{whole: direct}
			f := NewFile(m, "memory", direct)
			s, err := f.Reserve(int64(n))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.StartRead(make([]byte, n), 0).Wait(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes that are not there: %v", n, err)
			}
			for op, want := range map[string]error{"read": syscall.EIO, "write": syscall.ENOSPC} {
				m.fail = func(asked string, _ int64) error {
					if asked == op {
						return want
					}
					return nil
				}
				start := s.StartRead
				if op == "write" {
					start = s.StartWrite
				}
				if err := start(make([]byte, n), 0).Wait(); !errors.Is(err, want) {
					t.Errorf("%s of %d bytes: %v, want %v", op, n, err, want)
				}
			}
		}
	}
}

func BenchmarkWrite(b *testing.B) { benchmark(b, (*Section).StartWrite) }
func BenchmarkRead(b *testing.B)  { benchmark(b, (*Section).StartRead) }

// benchmark transfers 64 MiB in 4 MiB pieces, four at a time.
func benchmark(b *testing.B, start func(s *Section, p []byte, off int64) *Transfer) {
	f, err := Create(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const piece, pieces, depth = 4 << 20, 16, 4
	s, err := f.Reserve(piece * pieces)
	if err != nil {
		b.Fatal(err)
	}
	mem, err := pages(piece * pieces)
	if err != nil {
		b.Fatal(err)
	}
	defer unmap(mem)
	if _, err := s.WriteAt(mem, 0); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(piece * pieces)
	for b.Loop() {
		var under [pieces]*Transfer
		for i := range pieces {
			if i >= depth {
				if err := under[i-depth].Wait(); err != nil {
					b.Fatal(err)
				}
			}
			under[i] = start(s, mem[i*piece:][:piece], int64(i*piece))
		}
		for _, u := range under[pieces-depth:] {
			if err := u.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
