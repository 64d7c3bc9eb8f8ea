package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"trireme/internal/ordered"
)

// object is an object of alternating keys and values.
func object(all ...any) ordered.Map {
	m := ordered.Map{}
	for i := 0; i < len(all); i += 2 {
		m = append(m, ordered.Member{Key: all[i].(string), Value: all[i+1]})
	}
	return m
}

// The files of testdata have the same rows.
func TestParquetRows(t *testing.T) {
	for _, name := range []string{"groups", "zstd2", "legacy"} {
		file := name + ".parquet"
		got, err := records(t, Config{}, filepath.Join("testdata", file))
		var want []record
		for i, fields := range []map[string]any{
			{
				"text": "one", "label": int64(0), "small": int64(1), "big": float64(1 << 63), "score": 0.5, "ok": true,
				"messages":  []any{object("role", "user", "content", "hi"), object("role", "assistant", "content", nil)},
				"input_ids": []any{int64(1), int64(2), int64(3)}, "nested": []any{[]any{int64(1)}, []any{}},
				"opts": object("a", object("b", "c")), "map": object("k", int64(1)), "raw": binaryValue{}, "large": "a", "cat": "x", "null": nil,
			},
			{
				"text": nil, "label": int64(1), "small": int64(2), "big": int64(1), "score": nil, "ok": false, "messages": []any{},
				"input_ids": []any{}, "nested": []any{nil, []any{int64(2), nil}}, "opts": object("a", nil), "map": object(),
				"raw": "abc", "large": "b", "cat": "y", "null": nil,
			},
			{
				"text": "thrée", "label": nil, "small": int64(3), "big": int64(2), "score": 1.5, "ok": nil, "messages": nil,
				"input_ids": nil, "nested": nil, "opts": nil, "map": nil, "raw": nil, "large": "c", "cat": "x", "null": nil,
			},
			{
				"text": "", "label": int64(-3), "small": int64(4), "big": int64(3), "score": 2.0, "ok": true,
				"messages":  []any{nil, object("role", "user", "content", "x")},
				"input_ids": []any{int64(4)}, "nested": []any{}, "opts": object("a", object("b", nil)),
				"map": object("a", int64(2), "b", nil), "raw": "", "large": "d", "cat": nil, "null": nil,
			},
		} {
			want = append(want, record{where: fmt.Sprintf("%s (row %d)", file, i+1), fields: fields})
		}
		t.Run(name, func(t *testing.T) { wantRecords(t, got, err, want...) })
	}
}

// writeParquet writes texts in small row groups.
func writeParquet(t testing.TB, name string, texts ...string) string {
	t.Helper()
	return packParquet(t, name, &parquet.Uncompressed, texts...)
}

func packParquet(t testing.TB, name string, codec compress.Codec, texts ...string) string {
	t.Helper()
	type row struct {
		Text string `parquet:"text"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(100), parquet.Compression(codec))
	for _, text := range texts {
		if _, err := w.Write([]row{{text}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, name, b.String())
}

func TestParquetCompression(t *testing.T) {
	for name, codec := range map[string]compress.Codec{"snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd, "brotli": &parquet.Brotli} {
		got, err := records(t, Config{}, packParquet(t, "x.parquet", codec, "a text", "another"))
		if err != nil || len(got) != 2 || got[1].fields["text"] != "another" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	_, err := records(t, Config{}, packParquet(t, "x.parquet", &parquet.Lz4Raw, "a text"))
	wantError(t, err, "x.parquet", "LZ4", "try: ")
}

// A shard without rows is not an error.
func TestEmptyShards(t *testing.T) {
	empty, err := os.ReadFile("testdata/empty.parquet")
	if err != nil {
		t.Fatal(err)
	}
	some, err := os.ReadFile(writeParquet(t, "x.parquet", "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{
		"a.parquet": string(empty), "b.parquet": string(some), "c.parquet": "", "d.parquet": string(empty), "e.parquet": string(some[:len(some)-9]) + "?" + string(some[len(some)-8:]),
	})
	tok := bytesTokenizer(t)
	_, err = Open(t.Context(), textConfig(t, dir), ModelInfo{}, tok, nil)
	wantError(t, err, "e.parquet", "damaged")
	if err := os.Remove(filepath.Join(dir, "e.parquet")); err != nil {
		t.Fatal(err)
	}
	sets := open(t, textConfig(t, dir), tok)
	if got := texts(t, sets.Train, tok); strings.Join(got, ",") != "a$b$" && strings.Join(got, "") != "a$b$" {
		t.Errorf("%q", got)
	}
	notes := strings.Join(sets.Notes, "\n")
	for _, want := range []string{"c.parquet: 0 bytes", "2 files: 0 rows", "a.parquet"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q lacks %q", notes, want)
		}
	}
	got, err := records(t, Config{}, "testdata/empty.parquet")
	wantRecords(t, got, err)
	_, err = Open(t.Context(), textConfig(t, filepath.Join(dir, "a.parquet")), ModelInfo{}, tok, nil)
	wantError(t, err, "a.parquet has no rows")
}

// changeFooter replaces a file's footer.
func changeFooter(t *testing.T, blob []byte, change func(*format.FileMetaData)) string {
	t.Helper()
	at := len(blob) - 8 - int(binary.LittleEndian.Uint32(blob[len(blob)-8:]))
	var m format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), blob[at:len(blob)-8], &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), m)
	if err != nil {
		t.Fatal(err)
	}
	out := append(bytes.Clone(blob[:at]), footer...)
	return string(append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), "PAR1"...))
}

// A row group with fewer rows than the footer says is damaged.
func TestParquetTruncatedGroup(t *testing.T) {
	var list []string
	for i := range 250 {
		list = append(list, fmt.Sprint("text ", i))
	}
	blob, err := os.ReadFile(writeParquet(t, "x.parquet", list...))
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*format.FileMetaData){
		"a row group has 100 rows, the footer says 105": func(m *format.FileMetaData) { m.RowGroups[0].NumRows += 5; m.NumRows += 5 },
		"a row group has 100 rows, the footer says 95":  func(m *format.FileMetaData) { m.RowGroups[1].NumRows -= 5; m.NumRows -= 5 },
		"its footer has 255 rows, its row groups 250":   func(m *format.FileMetaData) { m.NumRows += 5 },
		"EOF": func(m *format.FileMetaData) { m.RowGroups[2].Columns[0].MetaData.TotalCompressedSize -= 9 },
	} {
		_, err := records(t, Config{}, write(t, "x.parquet", changeFooter(t, blob, change)))
		t.Run(want, func(t *testing.T) {
			wantError(t, err, "x.parquet", "the Parquet file is damaged", want, "try: download or write the file again")
		})
	}
}

// Every byte of a page with a checksum, which pyarrow can write, matters.
func TestParquetChecksums(t *testing.T) {
	blob, err := os.ReadFile("testdata/checksums.parquet")
	if err != nil {
		t.Fatal(err)
	}
	got, err := records(t, Config{}, write(t, "x.parquet", string(blob)))
	if err != nil || len(got) != 3 {
		t.Fatal(len(got), err)
	}
	at := bytes.Index(blob, []byte("\x03\x00\x00\x00one\x03\x00\x00\x00two"))
	if at < 0 {
		t.Fatal("no page")
	}
	for i := at; i < at+len("....one....two....three"); i++ {
		b := bytes.Clone(blob)
		b[i] ^= 1
		_, err := records(t, Config{}, write(t, "x.parquet", string(b)))
		wantError(t, err, "x.parquet", "the Parquet file is damaged", "checksum")
	}
}

func TestParquetErrors(t *testing.T) {
	var texts []string
	for i := range 250 {
		texts = append(texts, fmt.Sprint("text ", i))
	}
	path := writeParquet(t, "x.parquet", texts...)
	got, err := records(t, Config{}, path)
	if err != nil || len(got) != 250 || got[249].where != "x.parquet (row 250)" || got[249].fields["text"] != "text 249" {
		t.Fatal(len(got), err)
	}
	_, err = records(t, Config{}, writeParquet(t, "x.parquet", "a", "b\xff"))
	wantError(t, err, "x.parquet (row 2)", `invalid UTF-8 in "text"`)
	blob, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 11, 12, len(blob) / 2, len(blob) - 1} {
		_, err := records(t, Config{}, write(t, "x.parquet", string(blob[:n])))
		wantError(t, err, "x.parquet", "Parquet file is damaged")
	}
	lies := bytes.Clone(blob)
	copy(lies[len(lies)-8:], "\xff\xff\xff\x7f")
	_, err = records(t, Config{}, write(t, "x.parquet", string(lies)))
	wantError(t, err, "x.parquet", "footer of 2147483647 bytes")
	_, err = records(t, Config{}, write(t, "x.parquet", "text that is no such file"))
	wantError(t, err, "x.parquet", "74 65 78 74")
	_, err = records(t, Config{}, write(t, "x.parquet.gz", packedAs(t, "gz", string(blob))))
	wantError(t, err, "x.parquet.gz", "it is gzip, not Parquet")
	// A list of 2^31-1 elements in a footer of a few bytes.
	_, err = records(t, Config{}, write(t, "x.parquet", "PAR1\x29\xfc\xff\xff\xff\xff\x07\x00\x08\x00\x00\x00PAR1"))
	wantError(t, err, "x.parquet", "has invalid lengths")
	// Each byte changed: an error, or rows.
	small, err := os.ReadFile(writeParquet(t, "x.parquet", "aaa", "bbb"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range small {
		b := bytes.Clone(small)
		b[i] ^= 0xff
		if _, err := records(t, Config{}, write(t, "x.parquet", string(b))); err != nil && strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("byte %d: %q", i, err)
		}
	}
}

// Fuzz with -fuzzminimizetime 1x: the library reads pages in goroutines, so coverage varies between
// runs and minimizing does not end.
func FuzzParquet(f *testing.F) {
	for _, name := range []string{"checksums", "empty", "groups", "zstd2", "legacy"} {
		blob, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(blob)
	}
	path := filepath.Join(f.TempDir(), "x.parquet")
	f.Fuzz(func(t *testing.T, blob []byte) {
		if err := os.WriteFile(path, blob, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := records(t, Config{}, path)
		if err != nil && (!strings.HasPrefix(err.Error(), "data: "+path) || strings.ContainsRune(err.Error(), '\n')) {
			t.Fatalf("error %q", err)
		}
	})
}
