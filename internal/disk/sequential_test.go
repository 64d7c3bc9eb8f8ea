package disk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A Sequential writes the bytes that it gets, and leaves a file of its size.
func TestSequential(t *testing.T) {
	dir := os.Getenv("SEQUENTIAL_DIR") // of another file system
	if dir == "" {
		dir = t.TempDir()
	}
	rng, bytesOf := rand.New(rand.NewPCG(1, 2)), rand.NewChaCha8([32]byte{1})
	for round := range 20 {
		size := rng.IntN(2 * sequentialBuffers * sequentialBuffer)
		if round%4 == 0 {
			size = (1 + rng.IntN(2*sequentialBuffers)) * sequentialBuffer
		}
		want := make([]byte, size)
		bytesOf.Read(want)
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(size)); err != nil {
			t.Fatal(err)
		}
		s := NewSequential(path, int64(size))
		if s == nil {
			t.Skip("no direct writes in", dir)
		}
		end := size
		if round%5 == 0 { // the rest stays zero
			end = rng.IntN(size + 1)
			clear(want[end:])
		}
		for lo := 0; lo < end; {
			n := min(end-lo, 1+rng.IntN(1<<(1+rng.IntN(22))))
			if wrote, err := s.Write(want[lo : lo+n]); wrote != n || err != nil {
				t.Fatal(wrote, err)
			}
			if lo += n; s.Next() != int64(lo) {
				t.Fatalf("next is %d after %d bytes", s.Next(), lo)
			}
		}
		for _, do := range []func() error{s.Flush, s.Close} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: %d bytes, not the %d written: %v", round, len(got), size, err)
		}
	}
}

// A transfer that fails is the error of a later Write, or of Flush.
func TestSequentialFails(t *testing.T) {
	for _, buffers := range []int{1, 2, 7} {
		path := filepath.Join(t.TempDir(), "file")
		size := int64(buffers * sequentialBuffer)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		s := NewSequential(path, size)
		if s == nil {
			t.Skip("no direct writes in", filepath.Dir(path))
		}
		if err := s.f.Close(); err != nil {
			t.Fatal(err)
		}
		wrote := 0
		var err error
		for range buffers {
			n := 0
			if n, err = s.Write(make([]byte, sequentialBuffer)); err != nil {
				break
			}
			wrote += n
		}
		if err == nil {
			err = s.Flush()
		}
		if !errors.Is(err, os.ErrClosed) || wrote > (sequentialBuffers+1)*sequentialBuffer {
			t.Errorf("%d buffers: %v after %d bytes", buffers, err, wrote)
		}
		if err := s.Close(); !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}
}
