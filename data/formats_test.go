package data

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// records reads files with a configuration.
func records(t testing.TB, c Config, paths ...string) (all []record, err error) {
	t.Helper()
	s, err := c.newSource(paths[0], paths)
	if err != nil {
		return nil, err
	}
	err = s.eachRecord(func(r *record) error {
		r.where = filepath.Base(r.where)
		all = append(all, *r)
		return nil
	})
	return all, err
}

func wantRecords(t *testing.T, got []record, err error, want ...record) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); diff != "" {
		t.Error(diff)
	}
}

func TestCSV(t *testing.T) {
	content := "\ufefftext, label ,\r\n\"a,\r\n\"\"b\"\"\",1,\r\n\r\nc,2,x\r\n"
	got, err := records(t, Config{}, write(t, "x.csv", content))
	wantRecords(t, got, err,
		record{where: "x.csv:2", fields: map[string]any{"text": "a,\r\n\"b\"", "label": "1", "": ""}},
		record{where: "x.csv:5", fields: map[string]any{"text": "c", "label": "2", "": "x"}})
	for content, want := range map[string][]string{
		"a,b\n1,2\n3\n":          {"x.csv:3: 1 fields, but the header has 2"},
		"a,b\n1,2,3\n":           {"x.csv:2: 3 fields, but the header has 2"},
		"a,b\n1,x \"y\" z\n":     {"x.csv:2", "lone quote", "column 5"},
		"a,b\n1,\"y\" z\n":       {"x.csv:2", "lone quote"},
		"a,b\n1,2\n1,\"y\nz\n\n": {"x.csv:3", "quote at line 3, column 3 is not closed"},
		"a,b,a\n1,2,3\n":         {"x.csv:1", `duplicate column "a"`},
		"a,b\n1,x\xffy\n":        {"x.csv:2: invalid UTF-8", `in "b"`},
		"a,b\n1,x\x00y\n":        {"x.csv:2: NUL byte"},
		"a\xff,b\n1,2\n":         {"x.csv:1", "column 1"},
		"a,b\n\"1\n2\",3\n1,2,3": {"x.csv:4: 3 fields"},
	} {
		_, err := records(t, Config{}, write(t, "x.csv", content))
		t.Run(want[0], func(t *testing.T) { wantError(t, err, want...) })
	}
	got, err = records(t, Config{InvalidUTF8: utf8Replace}, write(t, "x.csv", "a\nx\xff\n"))
	wantRecords(t, got, err, record{where: "x.csv:2", fields: map[string]any{"a": "x\ufffd"}})
	for name, content := range map[string]string{"x.csv": "a\xff,b\n1,2\n", "x.tsv": "a\xff\tb\n1\t2\n"} {
		got, err = records(t, Config{InvalidUTF8: utf8Replace}, write(t, name, content))
		wantRecords(t, got, err, record{where: name + ":2", fields: map[string]any{"a\ufffd": "1", "b": "2"}})
	}
}

// Same as Python's csv.DictReader with newline="".
func TestCSVLineEnds(t *testing.T) {
	for content, want := range map[string][]record{
		"a,b\r1,2\r3,4":               {{where: "x.csv:2", fields: map[string]any{"a": "1", "b": "2"}}, {where: "x.csv:3", fields: map[string]any{"a": "3", "b": "4"}}},
		"a\r\r\n\r\"x\ry\r\n\"\rz":    {{where: "x.csv:4", fields: map[string]any{"a": "x\ry\r\n"}}, {where: "x.csv:7", fields: map[string]any{"a": "z"}}},
		"a,b\n\"1\r\n\r\",2\r\n,\"\"": {{where: "x.csv:2", fields: map[string]any{"a": "1\r\n\r", "b": "2"}}, {where: "x.csv:5", fields: map[string]any{"a": "", "b": ""}}},
		"a,b\n1,\n":                   {{where: "x.csv:2", fields: map[string]any{"a": "1", "b": ""}}},
	} {
		got, err := records(t, Config{}, write(t, "x.csv", content))
		t.Run(content, func(t *testing.T) { wantRecords(t, got, err, want...) })
	}
}

// A row that is too large is an error with its size before it fills the memory, also in a small
// compressed file.
func TestRowsTooLarge(t *testing.T) {
	c := Config{MaxRowBytes: 1000}
	long := strings.Repeat("x", 3<<20)
	for name, content := range map[string]string{
		"x.jsonl": `{"a": "b"}` + "\n" + `{"a": "` + long + `"}` + "\n{}\n",
		"x.json":  `[{"a": "b"}, {"a": "` + long + `"}]`,
		"x.csv":   "a\nb\n" + long + "\n",
		"y.csv":   "a\nb\n\"" + strings.Repeat("x\n", 1000),
		"x.tsv":   "a\tb\nb\tc\n" + long + "\t1\n",
	} {
		for _, kind := range []string{"", ".gz", ".zst"} {
			path := write(t, name+kind, packedAs(t, strings.TrimPrefix(kind, "."), content))
			got, err := records(t, c, path)
			where := path + ":3"
			switch name {
			case "x.jsonl":
				where = path + ":2"
			case "x.json":
				where = path + " (row 2)"
			}
			wantError(t, err, where, "bytes, more than data.max_row_bytes 1,000. try: ")
			if len(got) != 1 {
				t.Errorf("%s: %d rows before it", path, len(got))
			}
			if name == "x.jsonl" {
				wantError(t, err, "the line has 3,145,738 bytes")
			}
		}
	}
	got, err := records(t, c, write(t, "x.txt", long))
	if err != nil || len(got) < 2 {
		t.Errorf("text in pieces: %d, %v", len(got), err)
	}
	_, err = records(t, c, writeParquet(t, "x.parquet", "a", long))
	wantError(t, err, "x.parquet (row 2): a value has 3,145,728 bytes, more than data.max_row_bytes 1,000. try: ")
	wantError(t, Config{Path: "x", MaxRowBytes: -1}.Validate(), "max_row_bytes is -1")
}

func TestTSV(t *testing.T) {
	for row, want := range map[string][2]string{
		"1\t2":                      {"1", "2"},
		" 1 \t":                     {" 1 ", ""},
		"1\t\"2\t3\"":               {"1", "2\t3"},
		"\"say \"\"hi\"\"\"\t2":     {"say \"hi\"", "2"},
		"say \"hi\"\t\"":            {"say \"hi\"", "\""},
		"\"hi\" he said\t2":         {"\"hi\" he said", "2"},
		"\"not closed\t2":           {"\"not closed", "2"},
		"\"two\nlines\"\t2":         {"two\nlines", "2"},
		"1\t\"two\nlines\"":         {"1", "\"two"}, // the row has its fields: the quote means nothing
		"\"a\n\"\"b\"\"\tc\nd\"\t2": {"a\n\"b\"\tc\nd", "2"},
	} {
		got, err := records(t, Config{}, write(t, "x.tsv", "\ufeffa\tb\r\n"+row+"\r\n"))
		if strings.HasPrefix(row, "1\t\"two") {
			wantError(t, err, "x.tsv:3: 1 fields, but the header has 2")
			continue
		}
		t.Run(row, func(t *testing.T) {
			wantRecords(t, got, err, record{where: "x.tsv:2", fields: map[string]any{"a": want[0], "b": want[1]}})
		})
	}
	for content, want := range map[string]string{
		"a\tb\n1\t2\t3\n":        "x.tsv:2: 3 fields, but the header has 2",
		"a\tb\n1\t2\n\n3\n":      "x.tsv:4: 1 fields, but the header has 2",
		"a\tb\n\"1\n2\n":         "x.tsv:2: 1 fields, but the header has 2, and a quote is not closed",
		"a\t\"b\n1\t2\n":         "x.tsv:1: a quote in the header",
		"a\ta\n1\t2\n":           `x.tsv:1: duplicate column "a" in the header`,
		"a\tb\n1\t\xff\n":        `x.tsv:2: invalid UTF-8 in "b"`,
		"a\tb\n\"x\ny\"\t1\n1\n": "x.tsv:4: 1 fields",
	} {
		_, err := records(t, Config{}, write(t, "x.tsv", content))
		t.Run(want, func(t *testing.T) { wantError(t, err, want) })
	}
}

func TestJSONLists(t *testing.T) {
	for _, content := range []string{
		`[{"a": 1}, {"a": [2]}]`, "\ufeff \n[\n  {\n    \"a\": 1\n  },\n  {\"a\": [2]}\n]\n",
	} {
		got, err := records(t, Config{}, write(t, "x.json", content))
		wantRecords(t, got, err,
			record{where: "x.json (row 1)", fields: map[string]any{"a": int64(1)}},
			record{where: "x.json (row 2)", fields: map[string]any{"a": []any{int64(2)}}})
	}
	got, err := records(t, Config{}, write(t, "x.json", "\n{\"a\": 1}\n\n {\"a\": null}\r\n"))
	wantRecords(t, got, err,
		record{where: "x.json:2", fields: map[string]any{"a": int64(1)}}, record{where: "x.json:4", fields: map[string]any{"a": nil}})
	for content, want := range map[string][]string{
		`[{"a": 1}, `:                         {"x.json (row 2)", "unexpected EOF"},
		`[{"a": 1} {"a": 2}]`:                 {"x.json (row 2)", "invalid character '{'"},
		`[{"a": 1}, 2]`:                       {"x.json (row 2)", "a number, not a JSON object"},
		`[{"a": 1}] x`:                        {"x.json", "invalid character 'x'"},
		`[{"a": 1}] []`:                       {"x.json", "data after the list"},
		`[{"a": 1}, {"a": "` + "\xff" + `"}]`: {"x.json (row 2)", "invalid UTF-8"},
		"{\n \"data\": [{\"a\": 1}]\n}":       {"x.json", "spans several lines", `first key "data"`},
		`"text"`:                              {"x.json:1", "a string, not a JSON object"},
		"{\"a\": 1}\n{\"a\": \n":              {"x.json:2", "not a JSON object"},
	} {
		_, err := records(t, Config{}, write(t, "x.json", content))
		t.Run(content, func(t *testing.T) { wantError(t, err, want...) })
	}
}

// packedAs compresses b.
func packedAs(t testing.TB, kind, content string) string {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch kind {
	case "gz":
		w := gzip.NewWriter(&b)
		fmt.Fprint(w, content)
		err = w.Close()
	case "zst":
		w, e := zstd.NewWriter(&b)
		if e != nil {
			t.Fatal(e)
		}
		fmt.Fprint(w, content)
		err = w.Close()
	default:
		b.WriteString(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompressedFiles(t *testing.T) {
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "{\"text\": \"line %d of some\"}\n", i*i)
	}
	plain, err := records(t, Config{}, write(t, "x.jsonl", lines.String()))
	if err != nil || len(plain) != 5000 {
		t.Fatal(len(plain), err)
	}
	for _, kind := range []string{"gz", "zst"} {
		blob := packedAs(t, kind, lines.String())
		for _, name := range []string{"x.jsonl." + kind, "x.jsonl"} {
			got, err := records(t, Config{}, write(t, name, blob))
			if err != nil || len(got) != len(plain) || !slices.EqualFunc(got, plain, func(a, b record) bool { return a.fields["text"] == b.fields["text"] }) {
				t.Errorf("%s: %d records, %v", name, len(got), err)
			}
		}
		two, err := records(t, Config{}, write(t, "x.jsonl."+kind, blob+packedAs(t, kind, `{"text": "last"}`)))
		if err != nil || len(two) != 5001 {
			t.Errorf("two streams in one file: %d records, %v", len(two), err)
		}
		for _, n := range []int{6, 12, len(blob) / 2, len(blob) - 1} {
			_, err := records(t, Config{}, write(t, "x.jsonl."+kind, blob[:n]))
			wantError(t, err, "x.jsonl."+kind, "truncated")
		}
		damaged := []byte(blob)
		damaged[len(damaged)/2] ^= 0x55
		_, err = records(t, Config{}, write(t, "x.jsonl."+kind, string(damaged)))
		wantError(t, err, "x.jsonl."+kind)
		_, err = records(t, Config{}, write(t, "x.jsonl."+kind, lines.String()))
		wantError(t, err, "x.jsonl."+kind, "it is named ."+kind, "7b 22 74 65")
	}
	for content, want := range map[string]string{
		"\x1f\x8bjunkjunk":                          "not a gzip file: ",
		"\x28\xb5\x2f\xfd\xff\xff\xff\xff":          "not a zstd file: ",
		"\x28\xb5\x2f\xfd\x01\x00\x07\x01\x00\x00a": "a zstd dictionary",
	} {
		_, err := records(t, Config{}, write(t, "x.jsonl", content))
		wantError(t, err, "x.jsonl: ", want, "try: ")
	}
	for content, want := range map[string]string{
		"PK\x03\x04....": "a zip archive", "BZh9....": "bzip2", "\xfd7zXZ\x00..": "xz", "PAR1....": "a Parquet file",
		"\xff\xfe{\x00}\x00": "UTF-16", tokenMagic: "a token file",
	} {
		_, err := records(t, Config{}, write(t, "x.jsonl", content))
		wantError(t, err, "x.jsonl", want, "not jsonl", "try: ")
	}
}

// A folder may mix plain and compressed files.
func TestMixedCompression(t *testing.T) {
	tok := bytesTokenizer(t)
	dir := folder(t, map[string]string{"a.txt": "aaa", "b.txt.gz": packedAs(t, "gz", "bbb"), "c.txt.zst": packedAs(t, "zst", "ccc")})
	if got := texts(t, open(t, textConfig(t, dir), tok).Train, tok); !slices.Equal(got, []string{"aaa$", "bbb$", "ccc$"}) {
		t.Errorf("%q", got)
	}
}

func TestInvalidUTF8(t *testing.T) {
	tok := bytesTokenizer(t)
	c := textConfig(t, write(t, "x.txt", "ab\n\xffc\n"))
	_, err := Open(t.Context(), c, ModelInfo{}, tok, nil)
	wantError(t, err, "x.txt:2: invalid UTF-8", "data.invalid_utf8=replace")
	c.InvalidUTF8, c.SequenceLength = utf8Replace, 9
	if got := texts(t, open(t, c, tok).Train, tok); !slices.Equal(got, []string{"ab\n\ufffdc\n$"}) {
		t.Errorf("%q", got)
	}
}

// FuzzFile reads arbitrary bytes as each text format.
func FuzzFile(f *testing.F) {
	names := []string{"x.jsonl", "x.json.gz", "x.csv", "x.tsv", "x.txt", "x.csv.zst"}
	f.Add([]byte("a,b\n1,\"2\n\"\n"), 2)
	f.Add([]byte("a\tb\n1\t2\n"), 3)
	f.Add([]byte("[{\"a\": 1}, {}]"), 0)
	f.Add([]byte("{\"a\": 1}\n{\"b\": \"\\u00e9\"}"), 0)
	f.Add([]byte(packedAs(f, "gz", "[{\"a\": 1}]")), 1)
	f.Add([]byte(packedAs(f, "zst", "a\n1\n")), 5)
	f.Add([]byte("text\xff\n"), 4)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte, kind int) {
		path := filepath.Join(dir, names[uint(kind)%uint(len(names))])
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, c := range []Config{{}, {InvalidUTF8: utf8Replace}} {
			all, err := records(t, c, path)
			if err != nil && (!strings.HasPrefix(err.Error(), "data: "+path) || strings.ContainsRune(err.Error(), '\n')) {
				t.Fatalf("error %q", err)
			}
			for _, r := range all {
				if r.fields == nil || r.where == "" {
					t.Fatalf("record %+v", r)
				}
			}
		}
	})
}
