package safetensors

import (
	"bytes"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/tensor"
)

// TestSums: several processes add runs of a file in random order, and its checksums are those of its bytes.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := []Entry{
			{"short", tensor.F32, tensor.Shape{rapid.IntRange(0, 300).Draw(t, "short")}},
			{"long", tensor.BF16, tensor.Shape{rapid.IntRange(BlockBytes/2-2, BlockBytes+2).Draw(t, "long")}},
			{"a block", tensor.F64, tensor.Shape{BlockBytes / 8}},
		}
		l, err := NewChecksumLayout(entries, map[string]string{"format": "pt"})
		if err != nil {
			t.Fatal(err)
		}
		rng, bytesOf := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), rand.NewChaCha8([32]byte{1})
		ranks := make([]*Sums, rapid.IntRange(1, 3).Draw(t, "ranks"))
		for i := range ranks {
			ranks[i] = l.NewSums()
		}
		stride := rapid.IntRange(1, BlockBytes/4).Draw(t, "stride") // elements of a run
		file := make(memory, l.Size())
		for _, e := range entries {
			var runs []int
			for first := 0; first < e.Shape.Elems(); first += stride {
				runs = append(runs, first)
			}
			if rapid.Bool().Draw(t, "shuffle") {
				rng.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
			}
			for _, first := range runs {
				b := make([]byte, min(stride, e.Shape.Elems()-first)*e.DType.Size())
				bytesOf.Read(b)
				if err := ranks[rng.IntN(len(ranks))].Add(e.Name, first, b); err != nil {
					t.Fatal(err)
				}
				if err := l.WriteRange(file, e.Name, first, b); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, r := range ranks[1:] {
			if err := ranks[0].Merge(r.Parts()); err != nil {
				t.Fatal(err)
			}
		}
		header := ranks[0].Header()
		if len(header) != len(l.Header()) {
			t.Fatalf("a header of %d bytes replaces one of %d", len(header), len(l.Header()))
		}
		copy(file, header)
		f, err := NewFile("x", bytes.NewReader(file), l.Size())
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range entries { // against checksums of whole blocks
			_, at, _ := l.Find(e.Name)
			for k := range blocksOf(e.Bytes()) {
				b := file[at+int64(k)*BlockBytes:][:blockSize(e.Bytes(), k)]
				if got, want := f.sums.crc[f.sums.first[i]+k], crc32.Checksum(b, castagnoli); got != want {
					t.Fatalf("block %d of %s has checksum %08x, want %08x", k, e.Name, got, want)
				}
			}
			if err := f.ReadRange(e.Name, 0, e.Shape.Elems(), make([]byte, e.Bytes())); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// checked is a file with checksums and its tensors.
func checked(t testing.TB) (file []byte, entries []Entry) {
	t.Helper()
	entries = append(sample(), Entry{"long", tensor.F32, tensor.Shape{3, BlockBytes / 8}}) // a block and a half
	l, err := NewChecksumLayout(entries, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	sums, to := l.NewSums(), make(memory, l.Size())
	rng := rand.NewChaCha8([32]byte{4})
	for _, e := range entries {
		b := make([]byte, e.Bytes())
		rng.Read(b)
		if err := sums.Add(e.Name, 0, b); err != nil {
			t.Fatal(err)
		}
		if err := l.WriteRange(to, e.Name, 0, b); err != nil {
			t.Fatal(err)
		}
	}
	copy(to, sums.Header())
	return to, entries
}

// TestFlippedByte: a read returns the bytes that were written, or an error that names the file and the tensor, whatever range
// it is of.
func TestFlippedByte(t *testing.T) {
	file, entries := checked(t)
	rng := rand.New(rand.NewPCG(5, 5))
	damaged := 0
	for n := range 3000 {
		at := rng.IntN(len(file))
		if n%2 == 0 {
			at = rng.IntN(len(file) - 3*BlockBytes/2) // the small tensors and the header
		}
		b := bytes.Clone(file)
		b[at] ^= 1 << rng.IntN(8)
		f, err := NewFile("model.safetensors", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if damaged++; !strings.Contains(err.Error(), "model.safetensors") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("byte %d: %q", at, err)
			}
			continue
		}
		for i, e := range entries {
			size := e.DType.Size()
			first := rng.IntN(e.Shape.Elems() + 1)
			count := rng.IntN(e.Shape.Elems() - first + 1)
			got := make([]byte, count*size)
			if err := f.ReadRange(e.Name, first, count, got); err != nil {
				if damaged++; !strings.Contains(err.Error(), "model.safetensors: bytes [") || !strings.Contains(err.Error(), e.Name) {
					t.Fatalf("byte %d: %q", at, err)
				}
				continue
			}
			info := f.header.infos[slices.IndexFunc(f.header.infos, func(i Info) bool { return i.Name == e.Name })]
			if want := file[info.Offset+int64(first*size):][:count*size]; !bytes.Equal(got, want) {
				t.Fatalf("byte %d: %v has other bytes", at, entries[i])
			}
		}
	}
	if damaged < 1500 {
		t.Errorf("%d of 3000 flipped bits were seen", damaged)
	}
}

// Another program that writes the same tensors in another order, with the same metadata, keeps the checksums valid, and one that
// changes a tensor, a name or the metadata does not.
func TestChecksumsOfAnotherOrder(t *testing.T) {
	file, entries := checked(t)
	f, err := NewFile("x", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	again := func(entries []Entry, metadata map[string]string) error {
		l, err := NewLayout(entries, metadata)
		if err != nil {
			t.Fatal(err)
		}
		to := make(memory, l.Size())
		if err := l.WriteHeader(to); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if info, ok := f.Find(e.Name); ok {
				if err := l.WriteRange(to, e.Name, 0, file[info.Offset:info.Offset+info.Size]); err != nil {
					t.Fatal(err)
				}
			}
		}
		g, err := NewFile("x", bytes.NewReader(to), l.Size())
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := g.ReadRange(e.Name, 0, e.Shape.Elems(), make([]byte, e.Bytes())); err != nil {
				return err
			}
		}
		return nil
	}
	other := slices.Clone(entries)
	slices.Reverse(other)
	if err := again(other, f.Metadata()); err != nil {
		t.Errorf("in another order: %v", err)
	}
	other[0].Name = "renamed"
	if err := again(other, f.Metadata()); err == nil {
		t.Error("a tensor was renamed")
	}
	more := maps.Clone(f.Metadata())
	more["author"] = "somebody"
	if err := again(entries, more); err == nil {
		t.Error("the metadata was changed")
	}
	if err := again(entries[1:], f.Metadata()); err == nil || !strings.Contains(err.Error(), "not the checksums of") {
		t.Errorf("a tensor was left out: %v", err)
	}
	delete(more, checksumKey)
	if err := again(other, more); err != nil {
		t.Errorf("without checksums: %v", err)
	}
}

// Blocks that are read in parts are compared too, and only once.
func TestReadsPerBlock(t *testing.T) {
	file, _ := checked(t)
	r := &countingReader{r: bytes.NewReader(file)}
	f, err := NewFile("x", r, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	r.n = 0
	info, _ := f.Find("long")
	for at := range 8 {
		if err := f.ReadRange("long", at*100, 100, make([]byte, 400)); err != nil {
			t.Fatal(err)
		}
	}
	if want := BlockBytes + 7*400; r.n != want {
		t.Errorf("8 reads of the first block read %d bytes, want %d", r.n, want)
	}
	r.n = 0
	if err := f.ReadAs("long", tensor.BF16, 5, info.Elems()-5, make([]byte, 2*(info.Elems()-5))); err != nil {
		t.Fatal(err)
	}
	if want := int(info.Size) - 20; r.n != want {
		t.Errorf("the rest reads %d bytes, want %d", r.n, want)
	}
}

type countingReader struct {
	r *bytes.Reader
	n int
}

func (c *countingReader) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.r.ReadAt(b, at)
	c.n += n
	return n, err
}

// BenchmarkSums adds runs of 64 bytes, the shortest that divided matrices have.
func BenchmarkSums(b *testing.B) {
	l, err := NewChecksumLayout([]Entry{{"x", tensor.F32, tensor.Shape{1 << 20}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	run := make([]byte, 64)
	b.SetBytes(2 << 20)
	for b.Loop() {
		s := l.NewSums()
		for at := 0; at < 1<<20; at += 32 {
			if err := s.Add("x", at, run); err != nil {
				b.Fatal(err)
			}
		}
		s.Header()
	}
}
