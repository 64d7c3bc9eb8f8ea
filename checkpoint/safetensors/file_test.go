package safetensors

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/tensor"
)

// memory is a file of fixed size.
type memory []byte

func (m memory) WriteAt(p []byte, off int64) (int, error) { return copy(m[off:], p), nil }

func sample() []Entry {
	return []Entry{
		{"b.weight", tensor.F32, tensor.Shape{3, 5}},
		{"scalar", tensor.F64, tensor.Shape{}},
		{"empty", tensor.BF16, tensor.Shape{0, 7}},
		{"a \"quoted\" né", tensor.BF16, tensor.Shape{9}},
		{"ids", tensor.I64, tensor.Shape{2, 1}},
		{"mask", tensor.U8, tensor.Shape{3}},
	}
}

// build writes the layout from random bytes, in ranges in random order, and returns the file and
// each tensor's bytes.
func build(t testing.TB, entries []Entry, seed uint64) ([]byte, [][]byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	l, err := NewLayout(entries, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	file := make(memory, l.Size())
	type part struct{ entry, first, count int }
	var parts []part
	data := make([][]byte, len(entries))
	for i, e := range entries {
		data[i] = make([]byte, e.Bytes())
		for j := range data[i] {
			data[i][j] = byte(rng.Uint32())
		}
		for first, n := 0, e.Shape.Elems(); first < n; {
			count := 1 + rng.IntN(n-first)
			parts = append(parts, part{i, first, count})
			first += count
		}
	}
	rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	for _, p := range parts {
		size := entries[p.entry].DType.Size()
		if err := l.WriteRange(file, entries[p.entry].Name, p.first, data[p.entry][p.first*size:(p.first+p.count)*size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.WriteHeader(file); err != nil {
		t.Fatal(err)
	}
	return file, data
}

func TestWriteThenReadAnyRange(t *testing.T) {
	entries := sample()
	var first []byte
	for seed := range uint64(20) {
		file, data := build(t, entries, seed)
		if n := binary.LittleEndian.Uint64(file); n%8 != 0 {
			t.Fatalf("the header is %d bytes long, not a multiple of 8", n)
		}
		again, _ := build(t, entries, seed)
		if !bytes.Equal(file, again) {
			t.Fatal("the same tensors gave other bytes")
		}
		if first == nil {
			first = file
		}
		f, err := NewFile("x", bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		if f.Metadata()["format"] != "pt" {
			t.Fatalf("metadata is %v", f.Metadata())
		}
		for i, e := range entries {
			info, ok := f.Find(e.Name)
			if dt, _ := info.Type.DType(); !ok || dt != e.DType || !info.Shape.Equal(e.Shape) {
				t.Fatalf("%v was read as %v", e, info)
			}
			n, size := e.Shape.Elems(), e.DType.Size()
			for lo := 0; lo <= n; lo++ {
				for hi := lo; hi <= n; hi++ {
					got := make([]byte, (hi-lo)*size)
					if err := f.ReadRange(e.Name, lo, hi-lo, got); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, data[i][lo*size:hi*size]) {
						t.Fatalf("%v [%d,%d) differs", e, lo, hi)
					}
				}
			}
			if err := f.ReadRange(e.Name, n, 1, make([]byte, size)); err == nil {
				t.Fatalf("%v: an element after the last was read", e)
			}
		}
	}
}

func TestReadAsConverts(t *testing.T) {
	const n = 3*BlockBytes/2/2 + 5 // more than one scratch, and a tail
	l, err := NewLayout([]Entry{{"x", tensor.BF16, tensor.Shape{n}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := make(memory, l.Size())
	src := make([]byte, 2*n)
	for i := range n {
		binary.LittleEndian.PutUint16(src[2*i:], uint16(i*7))
	}
	l.WriteHeader(file)
	l.WriteRange(file, "x", 0, src)
	f, err := NewFile("x", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	const lo = 11
	got := make([]byte, 4*(n-lo))
	if err := f.ReadAs("x", tensor.F32, lo, n-lo, got); err != nil {
		t.Fatal(err)
	}
	for i := lo; i < n; i++ {
		if w, g := uint32(uint16(i*7))<<16, binary.LittleEndian.Uint32(got[4*(i-lo):]); w != g {
			t.Fatalf("element %d is %#x, want %#x", i, g, w)
		}
	}
	if err := f.ReadAs("x", tensor.I32, 0, 1, make([]byte, 4)); err == nil {
		t.Fatal("bf16 was read as int32")
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	file, _ := build(t, sample(), 3)
	for n := range file {
		if _, err := NewFile("cut.safetensors", bytes.NewReader(file[:n]), int64(n)); err == nil {
			t.Fatalf("a file truncated to %d of %d bytes was opened", n, len(file))
		} else if s := err.Error(); !strings.Contains(s, "cut.safetensors") || strings.Contains(s, "\n") {
			t.Fatalf("error is %q", s)
		}
	}
	longer := append(bytes.Clone(file), 0)
	if _, err := NewFile("x", bytes.NewReader(longer), int64(len(longer))); err == nil {
		t.Fatal("a file with a tail was opened")
	}
}

// raw returns a file with the given header and n bytes of data.
func raw(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func TestInvalidHeaders(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	for _, c := range []struct {
		name, header string
		data         int
		want         string // substring of the error; empty if valid
	}{
		{"right", `{` + a + `}`, 8, ""},
		{"padded", `{` + a + `}     `, 8, ""},
		{"nothing", `{}`, 0, ""},
		{"zero before any element", `{"z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},` + a + `}`, 8, ""},
		{"large but empty", `{"z":{"dtype":"F32","shape":[9223372036854775807,9,0],"data_offsets":[0,0]}}`, 0, ""},
		{"known elsewhere", `{"m":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}`, 3, ""},
		{"no header", ``, 0, "does not start with {"},
		{"space first", ` {}`, 0, "does not start with {"},
		{"array", `[]`, 0, "does not start with {"},
		{"tail", `{}x`, 0, "after its closing brace"},
		{"tail of tabs", "{}\t", 0, "after its closing brace"},
		{"two objects", `{}{}`, 0, "after its closing brace"},
		{"open", `{` + a, 8, "JSON is truncated"},
		{"duplicate", `{` + a + `,` + a + `}`, 8, "duplicate"},
		{"duplicate metadata", `{"__metadata__":{},"__metadata__":{}}`, 0, "duplicate"},
		{"metadata of numbers", `{"__metadata__":{"a":1}}`, 0, "not valid"},
		{"type", `{"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}}`, 8, `type "F31"`},
		{"no type", `{"a":{"shape":[2],"data_offsets":[0,8]}}`, 8, "type"},
		{"no shape", `{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4, "no shape"},
		{"null shape", `{"a":{"dtype":"F32","shape":null,"data_offsets":[0,4]}}`, 4, "no shape"},
		{"negative", `{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8, "not valid"},
		{"fraction", `{"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}}`, 8, "not valid"},
		{"one offset", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}}`, 8, "1 data_offsets"},
		{"no offsets", `{"a":{"dtype":"F32","shape":[2]}}`, 8, "0 data_offsets"},
		{"backwards", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8, "[8,0]"},
		{"unknown member", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}`, 8, "not valid"},
		{"shape too large", `{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0, "too large"},
		{"wraps to the size", `{"a":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]}}`, 16, "too large"},
		{"size", `{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8, "12 bytes"},
		{"hole first", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12, "4 unused bytes before"},
		{"hole", `{` + a + `,"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}}`, 10, "1 unused bytes before"},
		{"overlap", `{` + a + `,"b":{"dtype":"U8","shape":[1],"data_offsets":[7,8]}}`, 8, "overlaps"},
		{"same offset", `{` + a + `,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8, "overlaps"},
		{"past the end", `{` + a + `}`, 7, "truncated by 1"},
		{"tail of data", `{` + a + `}`, 9, "1 unused bytes after"},
		{"nested", `{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, 0, "not valid"},
		{"not text", "{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "not valid"},
	} {
		b := raw(c.header, c.data)
		_, err := NewFile("bad.safetensors", bytes.NewReader(b), int64(len(b)))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && err == nil:
			t.Errorf("%s: was opened", c.name)
		case err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "bad.safetensors") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 600):
			t.Errorf("%s: the error is %q, without %q", c.name, err, c.want)
		}
	}
	huge := append(binary.LittleEndian.AppendUint64(nil, 1<<63), make([]byte, 64)...)
	if _, err := NewFile("x", bytes.NewReader(huge), int64(len(huge))); err == nil || !strings.Contains(err.Error(), "claims") {
		t.Errorf("a header length of 2^63: %v", err)
	}
}

func TestLayoutRefuses(t *testing.T) {
	for _, es := range [][]Entry{
		{{"", tensor.F32, tensor.Shape{1}}},
		{{"__metadata__", tensor.F32, tensor.Shape{1}}},
		{{"a", tensor.F32, tensor.Shape{1}}, {"a", tensor.F32, tensor.Shape{1}}},
		{{"a", tensor.F32, tensor.Shape{-1}}},
		{{"\xff", tensor.F32, tensor.Shape{1}}},
	} {
		if _, err := NewLayout(es, nil); err == nil {
			t.Errorf("%v was accepted", es)
		}
	}
	l, err := NewLayout([]Entry{{"a", tensor.F32, tensor.Shape{2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := make(memory, l.Size())
	for first, n := range map[int]int{-1: 4, 3: 0, 2: 4, 0: 12, 1: 3} {
		if l.WriteRange(m, "a", first, make([]byte, n)) == nil {
			t.Errorf("%d bytes at element %d were written", n, first)
		}
	}
	if l.WriteRange(m, "b", 0, nil) == nil {
		t.Error("a tensor that was not declared was written")
	}
}

// TestGolden reads a file of the reference implementation.
func TestGolden(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "golden", "llama-mha", "model")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the golden cases are not beside the repository: %v", err)
	}
	m, err := OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	info, ok := m.Find("model.embed_tokens.weight")
	if !ok || info.Type != "F32" || !info.Shape.Equal(tensor.Shape{320, 64}) {
		t.Fatalf("the embedding is %v", info)
	}
	// Rewritten from its own tensors, the file has the same bytes.
	want, err := os.ReadFile(filepath.Join(path, ModelFile))
	if err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	for _, i := range m.Tensors() {
		dt, _ := i.Type.DType()
		entries = append(entries, Entry{i.Name, dt, i.Shape})
	}
	l, err := NewLayout(entries, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(memory, l.Size())
	l.WriteHeader(got)
	for _, e := range entries {
		b := make([]byte, e.Bytes())
		if err := m.ReadRange(e.Name, 0, e.Shape.Elems(), b); err != nil {
			t.Fatal(err)
		}
		l.WriteRange(got, e.Name, 0, b)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("the golden file was not written again with the same bytes")
	}
}

// FuzzFile checks that a file that opens is consistent with its size and readable.
func FuzzFile(f *testing.F) {
	file, _ := build(f, sample(), 1)
	f.Add(file)
	file, _ = checked(f)
	f.Add(file)
	f.Add(raw(`{}`, 0))
	f.Add(raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))
	f.Add(raw(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"__metadata__":{"a":"b"}}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := NewFile("fuzz", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of several lines: %q", err)
			}
			return
		}
		at := int64(8 + binary.LittleEndian.Uint64(b))
		for _, i := range x.Tensors() {
			if i.Offset != at {
				t.Fatalf("%v is at %d, want %d", i, i.Offset, at)
			}
			at += i.Size
			if i.Shape.Elems() != i.Elems() {
				t.Fatalf("%v has %d elements by its bytes", i, i.Elems())
			}
			if err := x.ReadRange(i.Name, 0, i.Elems(), make([]byte, i.Size)); err != nil && !x.Checked() {
				t.Fatal(err)
			}
		}
		if at != int64(len(b)) {
			t.Fatalf("the tensors end at %d, the file at %d", at, len(b))
		}
	})
}
