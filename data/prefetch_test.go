package data

import (
	"errors"
	"slices"
	"testing"
)

// reads is a dataset that records what is prefetched and read.
type reads struct {
	numbered
	prefetched, read []int
}

func (r *reads) prefetch(i int) error {
	r.prefetched = append(r.prefetched, i)
	return errors.New("no such advice") // does not matter
}

func (r *reads) Row(i int, row *Row) error {
	if len(r.prefetched) == len(r.read) {
		return errors.New("not prefetched")
	}
	r.read = append(r.read, i)
	return r.numbered.Row(i, row)
}

// A rank prefetches the rows of its batch, and only those, before it reads the first.
func TestLoaderPrefetches(t *testing.T) {
	set := &reads{numbered: numbered{n: 40, length: 3}}
	l, err := NewLoader(set, LoaderConfig{MicroBatchSize: 2, Accumulation: 2, Rank: 1, Ranks: 2, Shuffle: true, Prefetch: -1})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		next(t, l)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for n := 4; n <= len(set.read); n += 4 {
		if ahead, read := set.prefetched[:n], set.read[:n]; !slices.Equal(ahead, read) {
			t.Errorf("prefetched %v, read %v", ahead, read)
		}
	}
	if len(set.read) < 12 {
		t.Errorf("%d rows read", len(set.read))
	}
}

// TestPrefetchEveryRow: the advice is valid for the first and the last bytes of each kind of file.
func TestPrefetchEveryRow(t *testing.T) {
	values := make([]uint64, 5001)
	for i := range values {
		values[i] = uint64(i%500 + 10)
	}
	for name, content := range map[string]string{
		"plain.bin": littleEndian(2, values...), "llmc.bin": llmc(llmcMagic2, 1, 2, values...), "u8.npy": npy("<u8", values...),
	} {
		c := textConfig(t, write(t, name, content))
		s := open(t, c, nil)
		train, eval := Split(s.Train, 0.3)
		both := &concat{}
		both.add(train)
		both.add(eval)
		for i := range both.Len() {
			if err := both.prefetch(i); err != nil {
				t.Fatalf("%s: row %d: %v", name, i, err)
			}
		}
	}
	docs := make([]document, 300)
	for i := range docs {
		docs[i] = document{ids: make([]int32, i+1), class: Ignored}
	}
	f := tokens(t, 300, docs...)
	t.Cleanup(func() { f.close() })
	sel, err := f.selectDocs(selectConfig{minLen: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []Dataset{&documents{sel}, newPackedDocuments(sel, sel.maxLen)} {
		for i := range d.Len() {
			if err := prefetch(d, i); err != nil {
				t.Fatalf("%T: row %d: %v", d, i, err)
			}
		}
	}
}
