package checkpoint

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A file on disk has the bytes that were written, in order or not, past the page cache or through it.
func TestDiskFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	path := filepath.Join(t.TempDir(), "file")
	for round := range 12 {
		size := pastCache/2 + rng.IntN(pastCache)
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		os.Remove(path)
		err := writeFile(disk{}, path, int64(size), round%2 == 0, func(f file) error {
			pieces := [][2]int{}
			for lo := 0; lo < size; {
				n := min(size-lo, 1+rng.IntN(1<<20))
				pieces = append(pieces, [2]int{lo, lo + n})
				lo += n
			}
			if from := rng.IntN(len(pieces)); round%3 > 0 { // in another order from here on
				rest := pieces[from:]
				rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
			}
			for _, p := range pieces {
				if err := writeAt(f, want[p[0]:p[1]], int64(p[0]), "a piece"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: %d bytes, not the %d written: %v", round, len(got), size, err)
		}
	}
}
