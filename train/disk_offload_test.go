package train

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"trireme/device"
	"trireme/internal/disk"
	"trireme/tensor"
)

// full is a disk without space.
type full struct{}

func (full) ReadAt([]byte, int64) (int, error)  { return 0, io.EOF }
func (full) WriteAt([]byte, int64) (int, error) { return 0, syscall.ENOSPC }
func (full) Close() error                       { return nil }

func openOffload(t *testing.T) (*diskOffload, device.Device) {
	t.Helper()
	b, err := device.Open("cpu", device.Options{Reserve: 1 << 26})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	s, err := newDiskOffload(b, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v is left behind, %v", left, err)
		}
	})
	return s, b
}

// Inputs are popped last first, in any sequence of pushes and pops, in the memory of two.
func TestDiskOffloadIsAStack(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, b := openOffload(t)
	live := b.Meter().Read().LiveTotal
	rng := rand.New(rand.NewPCG(1, 2))
	for pass := range 20 {
		width := 1 + rng.IntN(300) // of all inputs of a pass
		var held [][]float32
		for push := 40; push > 0 || len(held) > 0; {
			if push > 0 && (len(held) == 0 || rng.IntN(3) > 0) {
				x := b.New(tensor.Activations, tensor.F32, 3, width)
				for i := range tensor.Host[float32](x) {
					tensor.Host[float32](x)[i] = rng.Float32()
				}
				held = append(held, slices.Clone(tensor.Host[float32](x)))
				s.Push(x)
				b.Fill(x, -1)
				x.Release()
				push--
			} else {
				if rng.IntN(4) == 0 { // nobody wants it
				} else if got, want := tensor.Host[float32](s.Top()), held[len(held)-1]; !slices.Equal(got, want) {
					t.Fatalf("pass %d: %v comes back at depth %d, want %v", pass, got, len(held), want)
				}
				held = held[:len(held)-1]
				if s.Pop(); len(held) == 0 {
					break // inputs of the next pass are of another size
				}
			}
			if got, most := b.Meter().Read().LiveTotal-live, int64(2*3*width*4); got > most {
				t.Fatalf("%d bytes are held, two inputs are %d", got, most)
			}
		}
	}
	if now := b.Meter().Read().LiveTotal; now != live {
		t.Errorf("%d bytes are held at the end", now-live)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A failed write is an error with advice, returned after running transfers end.
func TestDiskOffloadFails(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, b := openOffload(t)
	x := b.New(tensor.Activations, tensor.F32, 5)
	push := func() {
		defer func() {
			err, _ := recover().(error)
			if err == nil || err != s.err || !strings.Contains(err.Error(), "try: another store_path") {
				t.Errorf("panics with %v, keeps %v", err, s.err)
			}
		}()
		s.Push(x)
		s.Top()
	}
	if err := s.f.Close(); err != nil { // no space can be taken any more
		t.Fatal(err)
	}
	push()
	s.f = disk.NewFile(full{}, "full", false)
	push()
	if !errors.Is(s.err, syscall.ENOSPC) {
		t.Errorf("a full disk is %v", s.err)
	}
	s.depth = 0
	s.Push(x)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newDiskOffload(b, filepath.Join(file, "dir")); err == nil || !strings.Contains(err.Error(), "store_path") {
		t.Errorf("a directory in a file: %v", err)
	}
}
