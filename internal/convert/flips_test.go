package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"

	"trireme/checkpoint"
)

// subject is a checkpoint whose files are damaged.
type subject struct {
	name string
	make func(t *testing.T, dir string) (path string) // writes files below dir; path is to be opened
	read func(path string) (contents, error)
	// unchecked: the format has no checksum of the tensors' bytes and of their names.
	unchecked bool
}

// TestFlippedBits flips bits of all files of all formats, and cuts files off. The tensors are exact, or the files are
// refused in one line that names them. Formats without checksums may give one changed number or one changed name.
// TRIREME_FLIPS is the number of damages of a distributed checkpoint, whose .metadata has no checksum; without it, 2,000.
// The others have one in ten of them each.
func TestFlippedBits(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("TRIREME_FLIPS"), "2000"))
	if err != nil {
		t.Fatal("TRIREME_FLIPS: ", err)
	}
	const distributed = "torch.distributed.checkpoint"
	subjects := []subject{
		{"checkpoint, sharded", saved(checkpoint.Sharded), readSource, false},
		{"checkpoint, full", saved(checkpoint.Full), readSource, false},
		{"safetensors", exported(1 << 30), readSource, false},
		{"safetensors with an index", exported(600), readSource, false},
		{"safetensors of another program", withoutChecksums(exported(1<<30), "model/model.safetensors", "trireme.crc32c.256KiB"), readSource, true},
		{"file of torch.save", copied("plain.pt"), readSource, false},
		{"pytorch_model.bin with an index", copied("bin"), readSource, false},
		{distributed, copied("dcp"), readSource, false},
		{"Accelerate, sharded", copied("accelerate-fsdp"), readSource, false},
		{"Accelerate, full", copied("accelerate-fsdp-full"), readSource, false},
		{"DeepSpeed ZeRO-1", copied("zero1"), readSource, false},
		{"DeepSpeed ZeRO-2", copied("zero2"), readSource, false},
		{"DeepSpeed ZeRO-3", copied("zero3"), readSource, false},
		{"GGUF", writtenGGUF, readGGUF, false},
		{"GGUF of another program", withoutChecksums(writtenGGUF, "model.gguf", "trireme.crc32c"), readGGUF, true},
	}
	for i, s := range subjects {
		times := n / 10
		if s.name == distributed {
			times = n
		}
		t.Run(s.name, func(t *testing.T) { s.damage(t, times, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
}

// damage damages the files n times, one at a time.
func (s subject) damage(t *testing.T, n int, rng *rand.Rand) {
	dir := t.TempDir()
	path := s.make(t, dir)
	want, err := s.read(path)
	if err != nil || len(want) == 0 {
		t.Fatalf("%d tensors, %v", len(want), err)
	}
	var names []string
	whole := map[string][]byte{}
	if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
			whole[name], err = os.ReadFile(name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	refused, exact, changed := 0, 0, 0
	for i := range n {
		name := names[rng.IntN(len(names))]
		b, at := whole[name], rng.IntN(len(whole[name]))
		cut := i%10 == 9
		what := fmt.Sprintf("bit %d of byte %d of %s", i%8, at, name)
		if cut {
			what = fmt.Sprintf("%s cut off at byte %d of %d", name, at, len(b))
			err = os.Truncate(name, int64(at))
		} else {
			err = writeAt(name, []byte{b[at] ^ 1<<(i%8)}, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.readBounded(t, path, what)
		switch {
		case err != nil:
			refused++
			if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, filepath.Base(path)) && !strings.Contains(text, filepath.Base(name)) {
				t.Errorf("%s: the error names no file, or has several lines: %q", what, text)
			}
		case equalContents(got, want):
			exact++
		case s.unchecked && !cut && oneChange(got, want):
			changed++
		default:
			t.Errorf("%s: other tensors", what)
		}
		if err := writeAt(name, b[at:], at); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d damages: %d refused, %d without effect, %d changed one number or name", n, refused, exact, changed)
}

func writeAt(name string, b []byte, at int) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, int64(at))
	return errors.Join(err, f.Close())
}

// readBounded fails if reading panics or allocates much more than the files have.
func (s subject) readBounded(t *testing.T, path, what string) (contents, error) {
	const most = 8 << 20
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s: a panic: %v", what, p)
		}
	}()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	got, err := s.read(path)
	metrics.Read(sample)
	if n := sample[0].Value.Uint64() - before; n > most {
		t.Fatalf("%s: %d bytes were allocated", what, n)
	}
	return got, err
}

func equalContents(a, b contents) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// oneChange reports whether one tensor has another name, or other bits in one number (of a block that has one
// scale in GGUF).
func oneChange(got, want contents) bool {
	if len(got) != len(want) {
		return false
	}
	var was, is []string
	for k, v := range want {
		if got[k] != v {
			was = append(was, k)
		}
	}
	for k, v := range got {
		if want[k] != v {
			is = append(is, k)
		}
	}
	if len(was) != 1 || len(is) != 1 {
		return false
	}
	a, b := want[was[0]], got[is[0]]
	if was[0] != is[0] {
		return a == b
	}
	return a.as == b.as && len(a.data) == len(b.data) && (flipped(a.data, b.data) == 1 || strings.HasPrefix(a.as, "GGUF") && apart(a.data, b.data) <= 32*4)
}

// flipped counts the bits that differ.
func flipped(a, b string) (n int) {
	for i := range len(a) {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// apart is the number of bytes from the first that differs to the last.
func apart(a, b string) int {
	lo, hi := len(a), 0
	for i := range len(a) {
		if a[i] != b[i] {
			lo, hi = min(lo, i), i+1
		}
	}
	return hi - lo
}
