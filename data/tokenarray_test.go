package data

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// npy is a NumPy array.
func npy(kind string, values ...uint64) string {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", kind, len(values))
	header += strings.Repeat(" ", (64-(10+len(header)+1)%64)%64) + "\n"
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	return string(append(b, header...)) + littleEndian(int(kind[2]-'0'), values...)
}

func littleEndian(width int, values ...uint64) string {
	var b []byte
	for _, v := range values {
		b = append(b, binary.LittleEndian.AppendUint64(nil, v)[:width]...)
	}
	return string(b)
}

func llmc(magic, version, width int, values ...uint64) string {
	header := littleEndian(4, uint64(magic), uint64(version), uint64(len(values)))
	return header + strings.Repeat("\x00", llmcHeader-12) + littleEndian(width, values...)
}

func TestTokenFilesOfOtherPrograms(t *testing.T) {
	values := []uint64{1, 2, 300, 4, 65535, 6, 7}
	for name, content := range map[string]string{
		"nanogpt.bin": littleEndian(2, values...), "llmc.bin": llmc(llmcMagic2, 1, 2, values...), "llmc3.bin": llmc(llmcMagic4, 7, 4, values...),
		"u2.npy": npy("<u2", values...), "u4.npy": npy("<u4", values...), "i4.npy": npy("<i4", values...), "i8.npy": npy("<i8", values...),
	} {
		c := textConfig(t, write(t, name, content))
		c.SequenceLength = 3
		s := open(t, c, nil)
		var r Row
		if err := s.Train.Row(1, &r); err != nil || s.Train.Len() != 2 || !slices.Equal(r.InputIDs, []int32{4, 65535, 6}) || !slices.Equal(r.Labels, r.InputIDs) {
			t.Errorf("%s: %d rows, the second %v, %v", name, s.Train.Len(), r, err)
		}
		l, err := NewLoader(s.Train, LoaderConfig{MicroBatchSize: 2, Vocab: 500})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, err = l.Next(t.Context())
		wantError(t, err, name, "id 65535", "vocabulary of 500")
	}
}

// Tokens without a header have 2 bytes, or 4 if the upper halves show it.
func TestWidthOfPlainTokens(t *testing.T) {
	var ids, nucleotides []uint64
	for i := range uint64(200) {
		ids, nucleotides = append(ids, i*2654435761%500000), append(nucleotides, i*2654435761>>7%4)
	}
	small := func(width int, values []uint64) string { return littleEndian(width, values[:63]...) }
	for what, c := range map[string]struct {
		content string
		want    int64
	}{
		"uint32":                {littleEndian(4, ids...), 200},
		"uint16":                {littleEndian(2, ids...), 200},
		"uint16, few ids":       {littleEndian(2, nucleotides...), 200},
		"uint32, but few":       {small(4, ids), 126},
		"uint16, an odd number": {littleEndian(2, ids[:199]...), 199},
	} {
		a, err := findArray("x.bin", []byte(c.content), int64(len(c.content)))
		if err != nil || a.count != c.want || int64(a.width)*a.count != int64(len(c.content)) {
			t.Errorf("%s: %d tokens of %d bytes, %v, want %d", what, a.count, a.width, err, c.want)
		}
	}
	c := textConfig(t, write(t, "wide.bin", littleEndian(4, ids...)))
	c.SequenceLength = 100
	var r Row
	if err := open(t, c, nil).Train.Row(0, &r); err != nil || r.InputIDs[99] != int32(ids[99]) {
		t.Errorf("%v %v", r.InputIDs, err)
	}
}

// Token files are one dataset, and their names have splits.
func TestShardsOfTokens(t *testing.T) {
	c := textConfig(t, folder(t, map[string]string{
		"x_train_000002.bin": llmc(llmcMagic2, 1, 2, 7, 8, 9), "x_train_000001.bin": llmc(llmcMagic2, 1, 2, 1, 2, 3, 4, 5),
		"x_val_000000.bin": llmc(llmcMagic2, 1, 2, 10, 11), "meta.pkl": "\x80\x04",
	}))
	c.SequenceLength = 2
	s := open(t, c, nil)
	var got [][]int32
	for i := range s.Train.Len() {
		var r Row
		if err := s.Train.Row(i, &r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r.InputIDs)
	}
	if want := [][]int32{{1, 2}, {3, 4}, {7, 8}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("rows %v, want %v", got, want)
	}
	if w := s.Train.Where(2); !strings.Contains(w, "x_train_000002.bin (tokens 0 to 2)") {
		t.Errorf("row 2 is of %s", w)
	}
	if want := (Info{Length: 2, Tokens: 6, LabelCount: 6, MaxID: -1}); s.Train.Info() != want || s.Eval.Len() != 1 {
		t.Errorf("info %+v, %d evaluation rows", s.Train.Info(), s.Eval.Len())
	}
}

func TestTokenArrayErrors(t *testing.T) {
	good := npy("<u2", 1, 2, 3, 4)
	for _, c := range []struct{ name, content, want string }{
		{"x.bin", "abc", "3 bytes, expected 1 tokens of 2 bytes"},
		{"x.bin", llmc(llmcMagic2, 1, 2, 1, 2, 3)[:llmcHeader+4], "expected 3 tokens"},
		{"x.bin", llmc(llmcMagic2, 1, 2, 1, 2, 3)[:500], "expected 3 tokens of 2 bytes after a header of 1024"},
		{"x.npy", "abcdefgh", "not a NumPy array"},
		{"x.npy", good[:40], "header is truncated"},
		{"x.npy", good[:len(good)-1], "expected 4 tokens"},
		{"x.npy", npy("<f4", 1), "little-endian integers"},
		{"x.npy", npy(">u2", 1), "little-endian integers"},
		{"x.npy", npy("|u1", 1), "8-bit integers"},
		{"x.npy", strings.Replace(good, "(4,)", "(2, 2)", 1), "1-dimensional"},
		{"x.npy", strings.Replace(good, "(4,)", "(99999999999999999999,)", 1), "elements"},
		{"x.tok", "some text", "not a token file"},
		{"x.npy", npy("<u2"), "has no tokens"},
	} {
		_, err := Open(t.Context(), textConfig(t, write(t, c.name, c.content)), ModelInfo{}, nil, nil)
		t.Run(c.want, func(t *testing.T) { wantError(t, err, c.name, c.want) })
	}
	no := false
	for _, change := range []func(*Config){func(c *Config) { c.DocumentMask = true }, func(c *Config) { c.Packing = &no }} {
		c := textConfig(t, write(t, "x.npy", good))
		change(&c)
		_, err := Open(t.Context(), c, ModelInfo{}, nil, nil)
		wantError(t, err, "x.npy", "no document boundaries")
	}
}

func FuzzTokenArray(f *testing.F) {
	for name, content := range map[string]string{
		"x.npy": npy("<i8", 1, math.MaxUint64), "y.bin": llmc(llmcMagic4, 7, 4, 1, 2), "z.bin": "1234", "v.tok": "",
	} {
		f.Add(name, []byte(content))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		path := filepath.Join(dir, "x"+filepath.Ext(filepath.Base("x"+name)))
		if strings.ContainsAny(path, "\x00") || len(path) > 200 || os.WriteFile(path, content, 0o600) != nil {
			return
		}
		tf, err := openTokens(path)
		if err != nil {
			return
		}
		defer tf.close()
		var r Row
		if tf.fill(&r, 0, tf.tokens); int64(len(r.InputIDs)) != tf.tokens {
			t.Fatalf("%d tokens of %d", len(r.InputIDs), tf.tokens)
		}
	})
}
