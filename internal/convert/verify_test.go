package convert

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerify reads all formats, whole and damaged in a tensor.
func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		make      func(*testing.T, string) string
		file      string // to damage, relative to the path
		unchecked bool
		seen      int // at least, of 20 flipped bits
	}{
		"safetensors":     {exported(1 << 30), "model.safetensors", false, 20},
		"with an index":   {exported(600), "model-00002-of-00002.safetensors", false, 20},
		"another program": {withoutChecksums(exported(1<<30), "model/model.safetensors", "trireme.crc32c.256KiB"), "", true, 0},
		"GGUF":            {writtenGGUF, "", false, 20},
		"DCP":             {copied("dcp"), "__0_0.distcp", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.make(t, t.TempDir())
			v, err := Verify(t.Context(), path)
			if err != nil || v.Bytes == 0 || len(v.Damaged) > 0 || v.Unchecked != c.unchecked {
				t.Fatalf("%+v, %v", v, err)
			}
			if c.unchecked {
				return
			}
			file := filepath.Join(path, c.file)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			seen := 0
			for range 20 {
				at := len(b)*3/4 + rng.IntN(len(b)/4)
				if err := writeAt(file, []byte{b[at] ^ 8}, at); err != nil {
					t.Fatal(err)
				}
				v, err := Verify(t.Context(), path)
				for _, d := range v.Damaged {
					if d.Tensor == "" || !strings.Contains(d.Err.Error(), filepath.Base(path)) {
						t.Errorf("%+v", d)
					}
				}
				if err != nil || len(v.Damaged) > 0 {
					seen++
				}
				if err := writeAt(file, b[at:at+1], at); err != nil {
					t.Fatal(err)
				}
			}
			if seen < c.seen {
				t.Errorf("%d of 20 flipped bits were seen", seen)
			}
		})
	}
	if _, err := Verify(t.Context(), t.TempDir()); !errors.Is(err, ErrUnknown) {
		t.Errorf("an empty directory: %v", err)
	}
}
