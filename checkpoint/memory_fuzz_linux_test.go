package checkpoint

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"
)

// FuzzIndex: whatever is in the area of an index, reading, writing and deleting do not crash, touch no other area, and
// give no file more bytes than an area has.
func FuzzIndex(f *testing.F) {
	for _, text := range []string{
		`{"sequence":2,"entries":[{"path":"a"},{"path":"a/x","area":2,"size":3}]}`,
		`{"sequence":2,"entries":[{"path":"a/x","area":-1,"size":3}]}`,
		`{"sequence":2,"entries":[{"path":"a/x","area":1,"size":3}]}`,
		`{"sequence":2,"entries":[{"path":"a/x","area":262144,"size":3}]}`,
		`{"sequence":2,"entries":[{"path":"a/x","area":2,"size":-1}]}`,
		`{"sequence":2,"entries":[{"path":"a/x","area":2,"size":9223372036854775807}]}`,
		`{"sequence":2,"entries":[{"path":"a/x","area":2},{"path":"a/y","area":2}]}`,
		`{"sequence":2,"entries":[{"path":"a"},{"path":"a"}]}`,
		`{"sequence":2,"entries":[{"path":"../a"},{"path":"a/../b"},{"path":""}]}`,
		`{"sequence":18446744073709551614,"entries":[{"path":"a"}]}`,
		`{"sequence":2}{`, ``,
	} {
		f.Add([]byte(text), uint64(len(text)), true)
		f.Add([]byte(text), uint64(1<<62), true)
		f.Add([]byte(text), uint64(len(text)), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, size uint64, sums bool) {
		at := unnamed(t)
		head := make([]byte, indexHead)
		if sums { // a writer that is wrong, not damage
			binary.LittleEndian.PutUint32(head, crc32.Checksum(text, castagnoli))
			binary.LittleEndian.PutUint64(head[8:], size)
			binary.LittleEndian.PutUint32(head[16:], crc32.Checksum(head[:16], castagnoli))
		} else {
			copy(head, text)
		}
		if _, err := at.WriteAt(append(head, text...), 0); err != nil {
			t.Fatal(err)
		}
		guard := []byte("guard")
		if _, err := at.WriteAt(guard, (maxAreas-1)*areaBytes); err != nil {
			t.Fatal(err)
		}
		m, err := openHostMemory(at)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		x, err := m.read()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range x.Entries {
			if e.Area == 0 {
				continue
			}
			file, err := m.Open(e.Path)
			if err != nil {
				continue // its directory may have its name
			}
			if n, err := file.Size(); err != nil || n < 0 || n > areaBytes {
				t.Fatalf("%s has %d bytes, %v", e.Path, n, err)
			}
			b := make([]byte, 10)
			if n, _ := file.ReadAt(b, 0); n > 10 {
				t.Fatal(n)
			}
			if _, err := file.WriteAt(b, e.Size-5); err == nil {
				t.Fatal("bytes were written after the end of a file")
			}
		}
		if slices.ContainsFunc(x.Entries, func(e entry) bool { return e.Area == maxAreas-1 || e.in("new") }) {
			return
		}
		if err := errors.Join(m.MkdirAll("new/dir"), writeSmall(m, "new/dir/file", []byte("text"))); err != nil {
			t.Fatal(err)
		}
		b, err := readAll(m, "new/dir/file", 100)
		if err != nil || string(b) != "text" {
			t.Fatalf("%q, %v", b, err)
		}
		if err := m.RemoveAll("new"); err != nil {
			t.Fatal(err)
		}
		b = make([]byte, len(guard))
		if _, err := at.ReadAt(b, (maxAreas-1)*areaBytes); err != nil || string(b) != string(guard) {
			t.Fatalf("another area has %q, %v", b, err)
		}
	})
}
