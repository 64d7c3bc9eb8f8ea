package data

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trireme/internal/disk"
	"trireme/internal/durable"
)

// writeTokens writes documents as a token file.
func writeTokens(f *os.File, vocab int, docs ...document) error {
	w, err := newTokenWriter(f, vocab)
	if err != nil {
		return err
	}
	defer w.close()
	for i := range docs {
		if err := w.add(&docs[i]); err != nil {
			return err
		}
	}
	return w.finish([32]byte{1})
}

// tokens is a token file of documents.
func tokens(t interface {
	Helper()
	Fatal(...any)
}, vocab int, docs ...document) *tokenFile {
	t.Helper()
	f, err := disk.Unnamed("")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeTokens(f, vocab, docs...); err != nil {
		t.Fatal(err)
	}
	tf, err := mapTokens(f, "tokens")
	if err != nil {
		t.Fatal(err)
	}
	return tf
}

// Documents are read back, with and without labels, masks, classes and parts.
func TestTokenFileHoldsDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vocab := rapid.SampledFrom([]int{0, 300, 70000}).Draw(t, "vocab")
		id := rapid.Int32Range(0, int32(max(vocab, 300)-1))
		var docs, parts []document
		for range rapid.IntRange(1, 6).Draw(t, "docs") {
			d := document{class: Ignored, at: rapid.SampledFrom([]origin{0, lineOf(1, 7), rowOf(0, 3)}).Draw(t, "at")}
			n := rapid.IntRange(0, 20).Draw(t, "tokens")
			for range n {
				d.ids = append(d.ids, id.Draw(t, "id"))
			}
			if rapid.Bool().Draw(t, "labeled") {
				for _, id := range d.ids {
					d.labels = append(d.labels, rapid.SampledFrom([]int32{id, id, Ignored, 5}).Draw(t, "label"))
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "hiding") == 0 {
				d.hidden = rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "hidden")
			}
			if rapid.IntRange(0, 3).Draw(t, "classed") == 0 {
				d.class = rapid.Int32Range(0, 9).Draw(t, "class")
			}
			docs = append(docs, d)
			if cut := rapid.IntRange(0, n).Draw(t, "cut"); cut > 0 {
				first := d
				first.more, first.ids, d.ids = true, d.ids[:cut], d.ids[cut:]
				if d.labels != nil {
					first.labels, d.labels = d.labels[:cut], d.labels[cut:]
				}
				if d.hidden != nil {
					first.hidden, d.hidden = d.hidden[:cut], d.hidden[cut:]
				}
				parts = append(parts, first)
			}
			parts = append(parts, d)
		}
		tf := tokens(t, vocab, parts...)
		defer tf.close()
		tf.files = []string{"a", "b"}
		longest, counted := 0, int64(0)
		for i, d := range docs {
			var r Row
			lo := tf.begin(i)
			tf.fill(&r, lo, tf.end(i))
			tf.applyMask(&r, lo)
			longest = max(longest, len(d.ids))
			if !slices.Equal(r.InputIDs, d.ids) || tf.docClass(i) != d.class || tf.where(i) != d.at.in(tf.files) {
				t.Fatalf("document %d is %v, class %d, of %s; want %+v", i, r.InputIDs, tf.docClass(i), tf.where(i), d)
			}
			for k, id := range d.ids {
				want, doc := id, int32(0)
				if d.labels != nil {
					want = d.labels[k]
				}
				if d.hidden != nil && d.hidden[k] {
					want, doc = Ignored, -1
				}
				if want != Ignored {
					counted++
				}
				if r.Labels[k] != want || len(r.Docs) > 0 && r.Docs[k] != doc {
					t.Fatalf("document %d: labels %v, documents %v; want %+v", i, r.Labels, r.Docs, d)
				}
			}
		}
		if tf.docs != len(docs) || tf.longest != longest || tf.tokenInfo.counted != counted {
			t.Fatalf("%+v; want %d documents, the longest of %d, %d counted", tf.tokenInfo, len(docs), longest, counted)
		}
	})
}

func tokenBytes(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x")
	err := durable.Replace(path, 0o600, func(file *os.File) error {
		return writeTokens(file, 100, document{ids: []int32{1, 2, 3}, labels: []int32{1, Ignored, 9}, class: 2}, document{ids: []int32{4}, hidden: []bool{true}, class: Ignored})
	})
	if err != nil {
		t.Fatal(err)
	}
	blob, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

// Every truncation is an error, and so is every flipped bit of the header.
func TestDamagedTokenFile(t *testing.T) {
	blob := tokenBytes(t)
	path := filepath.Join(t.TempDir(), "x.tok")
	check := func(b []byte) error {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		tf, err := openTokens(path)
		if err == nil {
			tf.close()
		}
		return err
	}
	if err := check(blob); err != nil {
		t.Fatal(err)
	}
	for n := range len(blob) {
		wantError(t, check(blob[:n]), "x.tok")
	}
	for i := range 8 * tokenHeader {
		b := bytes.Clone(blob)
		b[i/8] ^= 1 << (i % 8)
		if _, err := parseTokenHeader(b, int64(len(b))); err == nil {
			t.Errorf("flipped bit %d of the header is not detected", i)
		}
	}
	for i := tokenHeader; i < len(blob); i++ { // one block, so all of it is compared
		b := bytes.Clone(blob)
		b[i] ^= 1 << (i % 8)
		if check(b) == nil {
			t.Errorf("flipped bit of byte %d is not detected", i)
		}
	}
}

// Damaged tokens are an error of the rows in their block alone, when they are read.
func TestDamagedBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tok")
	const n = 3*sumBlock/2 + 100 // three blocks and a part
	if err := durable.Replace(path, 0o600, func(f *os.File) error { return writeTokens(f, 300, document{ids: make([]int32, n)}) }); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{1}, tokenHeader+sumBlock+7); err != nil {
		t.Fatal(err)
	}
	tf, err := openTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tf.close()
	tf.at, tf.cached = path, true
	const half = sumBlock / 2 // tokens of a block
	for _, c := range []struct {
		lo, hi  int64
		damaged bool
	}{{0, half, false}, {half - 1, half, false}, {half - 1, half + 1, true}, {2*half - 1, 2 * half, true}, {2 * half, n, false}, {0, n, true}, {half, half, false}} {
		if err := tf.checkTokens(c.lo, c.hi); (err != nil) != c.damaged {
			t.Errorf("tokens %d to %d: %v", c.lo, c.hi, err)
		}
	}
	rows := &packedText{file: tf, length: half}
	var r Row
	wantError(t, rows.Row(1, &r), "its file in the cache, "+path+", is damaged: a checksum differs. try: remove that file")
	if err := rows.Row(2, &r); err != nil || len(r.InputIDs) != half {
		t.Error(err)
	}
}

func FuzzTokenFile(f *testing.F) {
	blob := tokenBytes(f)
	f.Add(blob[:tokenHeader], blob[tokenHeader:])
	f.Add(blob[:40], []byte{})
	f.Fuzz(func(t *testing.T, h, rest []byte) {
		if len(h) == tokenHeader { // so that the fields are reached
			h = binary.LittleEndian.AppendUint32(bytes.Clone(h[:tokenHeader-4]), crc32.Checksum(h[:tokenHeader-4], castagnoli))
		}
		info, err := parseTokenHeader(h, int64(tokenHeader+len(rest)))
		if err != nil {
			return
		}
		want := int64(0)
		for _, n := range info.sizes() {
			want += n
		}
		if want != int64(len(rest)) {
			t.Fatal("a file that does not match its header")
		}
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, append(h[:tokenHeader:tokenHeader], rest...), 0o600); err != nil {
			t.Fatal(err)
		}
		tf, err := openTokens(path)
		if err != nil {
			return
		}
		defer tf.close()
		var r Row
		for i := range tf.docs {
			tf.fill(&r, tf.begin(i), tf.end(i))
			tf.applyMask(&r, tf.begin(i))
			tf.docClass(i)
			tf.where(i)
		}
	})
}

// damagedRows has a row that its token file cannot have.
type damagedRows struct{ Dataset }

func (damagedRows) Row(_ int, r *Row) error {
	r.InputIDs, r.Labels = []int32{1, 70}, []int32{1, 70}
	return nil
}
func (damagedRows) Where(int) string { return "text.txt:1" }
func (damagedRows) Info() Info       { return Info{MaxID: 9, Length: 2} }

func TestDamagedTokens(t *testing.T) {
	m := &MicroBatch{MaxLength: 2}
	want := "data: text.txt:1: token id 70 is above 9, the largest of its token file: that file is damaged. try: write it again, or data.cache_dir=DIR, if it is in the cache"
	if err := m.add(damagedRows{}, 0, 0, &Row{}, &LoaderConfig{Vocab: 64}); err == nil || err.Error() != want {
		t.Errorf("%v in place of %s", err, want)
	}
}
