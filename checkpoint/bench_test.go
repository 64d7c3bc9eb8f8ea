package checkpoint

import (
	"os"
	"testing"

	"trireme/tensor"
)

// benchItems is 256 MiB in 16 tensors.
func benchItems() []Item {
	items := make([]Item, 16)
	const elems = 4 << 20
	for i := range items {
		b := make([]byte, 4*elems)
		for j := range b {
			b[j] = byte(j * (i + 3) >> 3)
		}
		data := tensor.Of(tensor.NewBuffer(b, len(b), tensor.Params, nil), tensor.F32, 0, elems)
		items[i] = Item{Param, tensor.Shard{Name: string(rune('a' + i)), DType: tensor.F32, Shape: tensor.Shape{elems}, Box: tensor.FullBox(tensor.Shape{elems}), Data: data}}
	}
	return items
}

// BenchmarkSave includes fsync; BenchmarkLoad reads from the page cache.
func BenchmarkSave(b *testing.B) {
	items, dir := benchItems(), b.TempDir()
	s, err := NewStore(dir, "a-run", Config{Keep: Keep{KeepLastN: 1}}, SingleProcess{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(256 << 20)
	b.ReportAllocs()
	for step := 0; b.Loop(); step++ {
		if _, err := s.Save(b.Context(), Meta{Step: step}, items); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	items, dir := benchItems(), b.TempDir()
	s, err := NewStore(dir, "a-run", Config{}, SingleProcess{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	saved, err := s.Save(b.Context(), Meta{}, items)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(256 << 20)
	b.ReportAllocs()
	for b.Loop() {
		c, err := Open(saved.Path)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Load(b.Context(), items, LoadOptions{}); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

// BenchmarkPlainWrite is the baseline of a save: the same bytes written and synced.
func BenchmarkPlainWrite(b *testing.B) {
	items := benchItems()
	b.SetBytes(256 << 20)
	for b.Loop() {
		f, err := os.CreateTemp(b.TempDir(), "")
		if err != nil {
			b.Fatal(err)
		}
		for _, it := range items {
			if _, err := f.Write(tensor.HostBytes(it.Data)); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
