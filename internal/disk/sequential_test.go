package disk

import (
	"bytes"
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
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		size := rng.IntN(3 * sequentialBuffer)
		if round%4 == 0 {
			size = (1 + rng.IntN(3)) * sequentialBuffer
		}
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
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
