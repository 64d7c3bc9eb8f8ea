package data

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/durable"
	"trireme/tokenizer"
)

// bytesTokenizer has a token per byte, and <|endoftext|> as 0.
func bytesTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Train(t.Context(), slices.Values([]string{""}), tokenizer.TrainOptions{VocabSize: 257})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func textConfig(t testing.TB, path string) Config {
	c := DefaultConfig()
	c.Path, c.CacheDir, c.SequenceLength = path, t.TempDir(), 4
	return c
}

func open(t testing.TB, c Config, tok *tokenizer.Tokenizer) *Sets {
	t.Helper()
	s, err := Open(t.Context(), c, ModelInfo{}, tok, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// texts decodes all rows.
func texts(t testing.TB, d Dataset, tok *tokenizer.Tokenizer) (out []string) {
	t.Helper()
	var r Row
	for i := range d.Len() {
		if err := d.Row(i, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.ReplaceAll(tok.Decode(r.InputIDs), "<|endoftext|>", "$"))
	}
	return out
}

const threeDocs = "{\"text\": \"abcde\"}\n{\"text\": \"\"}\n{\"text\": \"f\"}\n{\"text\": \"ghijkl\"}\n"

func TestPackedRows(t *testing.T) {
	tok := bytesTokenizer(t)
	c := textConfig(t, write(t, "a.jsonl", threeDocs))
	s := open(t, c, tok)
	if got := texts(t, s.Train, tok); !slices.Equal(got, []string{"abcd", "e$f$", "ghij"}) {
		t.Errorf("rows %q", got)
	}
	if want := (Info{Length: 4, Tokens: 12, MaxID: s.Train.Info().MaxID, LabelCount: 12, Skipped: 1}); s.Train.Info() != want {
		t.Errorf("info %+v", s.Train.Info())
	}
	c.DocumentMask = true
	s = open(t, c, tok)
	l, err := NewLoader(s.Train, LoaderConfig{MicroBatchSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := next(t, l).Micro[0]
	if want := []int32{0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0}; !slices.Equal(m.Docs, want) {
		t.Errorf("docs %v, want %v", m.Docs, want)
	}
	if want := []int32{0, 1, 2, 3, 0, 1, 0, 1, 0, 1, 2, 3}; !slices.Equal(m.Positions, want) {
		t.Errorf("positions %v, want %v", m.Positions, want)
	}
	if m.Targets[4] != 0 || m.Targets[5] != Ignored || m.Targets[6] != 0 || m.LabelCount != 8 {
		t.Errorf("targets %v, counted %d", m.Targets, m.LabelCount)
	}
}

// Format text uses the text of rows, whatever other keys they have.
func TestRowsOfText(t *testing.T) {
	tok := bytesTokenizer(t)
	c := textConfig(t, write(t, "a.jsonl", `{"text": "abc", "prompt": "x", "completion": "y"}`))
	c.Format = FormatText
	if got := texts(t, open(t, c, tok).Train, tok); !slices.Equal(got, []string{"abc$"}) {
		t.Errorf("rows %q", got)
	}
}

func TestUnpackedRows(t *testing.T) {
	tok := bytesTokenizer(t)
	c := textConfig(t, write(t, "a.jsonl", threeDocs))
	c.Packing, c.Truncate = new(false), true
	if got := texts(t, open(t, c, tok).Train, tok); !slices.Equal(got, []string{"abcd", "f$", "ghij"}) {
		t.Errorf("rows %q", got)
	}
	c.Truncate = false
	c.SequenceLength = 6
	_, err := Open(t.Context(), c, ModelInfo{}, tok, nil)
	wantError(t, err, "a.jsonl:4", "7 tokens", "sequence_length 6")
}

func TestFoldersGlobsAndEvaluation(t *testing.T) {
	tok := bytesTokenizer(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"b.txt": "bbb", "a.txt": "aaa", "sub/c.txt": "ccc", ".hidden": "no", "empty": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := textConfig(t, dir)
	c.EvalPath = filepath.Join(dir, "*.txt")
	s := open(t, c, tok)
	if got := texts(t, s.Train, tok); !slices.Equal(got, []string{"aaa$", "bbb$", "ccc$"}) {
		t.Errorf("folder %q", got)
	}
	if got := texts(t, s.Eval, tok); !slices.Equal(got, []string{"aaa$", "bbb$"}) {
		t.Errorf("glob %q", got)
	}
	c.EvalPath, c.EvalFraction = "", 0.34
	s = open(t, c, tok)
	if got := texts(t, s.Eval, tok); !slices.Equal(got, []string{"ccc$"}) || s.Train.Len() != 2 {
		t.Errorf("evaluation rows %q", got)
	}
}

// Concurrent ranks tokenize once, and detect a changed file.
func TestCacheWrittenOnce(t *testing.T) {
	tok := bytesTokenizer(t)
	path := write(t, "a.txt", strings.Repeat("some words\n", 1000))
	c := textConfig(t, path)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(context.Background(), c, ModelInfo{}, tok, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	made := func() int {
		files, err := filepath.Glob(filepath.Join(c.CacheDir, "tokens", "*"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range files {
			if filepath.Ext(f) == ".tok" {
				n++
			} else if filepath.Ext(f) != ".lock" {
				t.Errorf("left: %s", f)
			}
		}
		return n
	}
	if made() != 1 {
		t.Fatalf("%d token files", made())
	}
	if err := os.WriteFile(path, []byte("other text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, open(t, c, tok).Train, tok); got[0] != "othe" || made() != 2 {
		t.Errorf("after a change: %q", got)
	}
}

// A damaged token file is rewritten.
func TestDamagedCache(t *testing.T) {
	tok := bytesTokenizer(t)
	c := textConfig(t, write(t, "a.txt", "some words"))
	open(t, c, tok)
	files, _ := filepath.Glob(filepath.Join(c.CacheDir, "tokens", "*.tok"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	for _, n := range []int64{0, 30, 90} {
		if err := os.Truncate(files[0], n); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), c, ModelInfo{}, tok, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := texts(t, s.Train, tok); !slices.Equal(got, []string{"some", " wor"}) {
			t.Errorf("cut to %d: %q", n, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTokenFileAsInput(t *testing.T) {
	for _, vocab := range []int{257, 70000} {
		path := filepath.Join(t.TempDir(), "x.tok")
		err := durable.Replace(path, 0o600, func(f *os.File) error {
			return writeTokens(f, vocab, document{ids: []int32{1, 2, 3}, class: Ignored}, document{class: Ignored}, document{ids: []int32{int32(vocab - 1), 5}, class: Ignored})
		})
		if err != nil {
			t.Fatal(err)
		}
		c := textConfig(t, path)
		c.Packing, c.SequenceLength = new(false), 3
		s := open(t, c, nil)
		var r Row
		if err := s.Train.Row(1, &r); err != nil || !slices.Equal(r.InputIDs, []int32{int32(vocab - 1), 5}) {
			t.Errorf("row %v, %v", r, err)
		}
		_, err = NewLoader(s.Train, LoaderConfig{Vocab: vocab - 1})
		wantError(t, err, "x.tok", fmt.Sprint("id ", vocab-1))
	}
}

func TestOpenErrors(t *testing.T) {
	tok := bytesTokenizer(t)
	for _, c := range []struct {
		name, content string
		change        func(*Config)
		want          []string
	}{
		{"e.txt", "", nil, []string{"e.txt is empty"}},
		{"b.txt", "abc\x00def", nil, []string{"b.txt:1", "NUL byte", "not a text file"}},
		{"s.txt", "ab", nil, []string{"s.txt has 3 tokens", "sequence_length 4"}},
		{"k.jsonl", "{\"text\": \"abc\"}\n{\"content\": \"a\", \"id\": 1}", nil, []string{"k.jsonl:2", "no key \"text\"", "keys content, id"}},
		{"n.jsonl", `{"text": 5}`, nil, []string{"n.jsonl:1", "not a string"}},
		{"u.txt", "ab\ncd\xffef", nil, []string{"u.txt:2: invalid UTF-8", "data.invalid_utf8"}},
		{"u.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\xff\"}", nil, []string{"u.jsonl:2: invalid UTF-8 in \"text\"", "data.invalid_utf8"}},
		{"m.jsonl", "{\"data\": [\n{\"text\": \"a\"}\n]}", nil, []string{"m.jsonl", "spans several lines", "first key \"data\"", "jq"}},
		{"l.json", `{"version": 1, "data": [{"text": "a"}, {"text": "b"}]}`, nil, []string{"l.json:1", "its rows in the list \"data\"", "jq -c '.data[]'"}},
		{"t.jsonl", `{"body": "a"}`, func(c *Config) { c.Format = FormatText }, []string{"t.jsonl:1 has keys body, but not \"text\"", "data.columns.text"}},
		{"e.jsonl", "{\"text\": \"\"}\n{\"text\": \"\"}", nil, []string{"e.jsonl", "none of 2 rows"}},
		{"j.jsonl", `{"text": `, nil, []string{"j.jsonl:1", "not a JSON object"}},
		{"f.jsonl", `{"text": "a"}`, func(c *Config) { c.TextField = "body" }, []string{"no key \"body\"", "keys text"}},
		{"x.txt", "abc", func(c *Config) { c.Format = "arrow" }, []string{"format: \"arrow\"", "jsonl"}},
		{"x.txt", "abc", func(c *Config) { c.Path = "" }, []string{"path not set"}},
		{"x.txt", "abc", func(c *Config) { c.Path = "no/such.txt" }, []string{"no/such.txt"}},
		{"x.tok", "not tokens, but long enough to hold the header of a token file ........", nil, []string{"x.tok", "not a token file"}},
		{"x.txt", "abcdefgh", func(c *Config) { c.EvalFraction = 0.01 }, []string{"eval_fraction 0.01 of 2 rows selects no row"}},
		{"x.txt", "abc", func(c *Config) { c.CacheDir = "/proc/none" }, []string{"cache", "data.cache_dir"}},
	} {
		cfg := textConfig(t, write(t, c.name, c.content))
		if c.change != nil {
			c.change(&cfg)
		}
		_, err := Open(t.Context(), cfg, ModelInfo{}, tok, nil)
		wantError(t, err, c.want...)
	}
	cfg := textConfig(t, write(t, "a.txt", "abcdef"))
	_, err := Open(t.Context(), cfg, ModelInfo{}, nil, nil)
	wantError(t, err, "needs a tokenizer", "data.tokenizer")
	_, err = Open(t.Context(), cfg, ModelInfo{Vocab: 100}, tok, nil)
	wantError(t, err, "257 tokens", "vocabulary has 100")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(ctx, cfg, ModelInfo{}, tok, nil)
	wantError(t, err, "canceled")
}

func TestTrainTokenizer(t *testing.T) {
	c := textConfig(t, write(t, "a.txt", strings.Repeat("the same few words and the same\n", 50)))
	a, err := TrainTokenizer(t.Context(), c, 270)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(c.Path, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	b, err := TrainTokenizer(t.Context(), c, 270)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := a.MarshalJSON()
	y, _ := b.MarshalJSON()
	if a.VocabSize() != 270 || string(x) != string(y) {
		t.Errorf("vocab %d", a.VocabSize())
	}
	c.Path = write(t, "r.jsonl", `{"input_ids": [1]}`)
	_, err = TrainTokenizer(t.Context(), c, 270)
	wantError(t, err, "token ids")
}

func TestGoSource(t *testing.T) {
	root := t.TempDir()
	for name, size := range map[string]int{
		"fmt/print.go": 100, "fmt/print_test.go": 100, "cmd/x.go": 100, "a/testdata/y.go": 100, "vendor/z.go": 9,
		"big/tables.go": goSourceLargest + 1, "a/a.go": 100, "b/b.go": 100, "c/c.go": 100, "c/c.s": 4,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "gen.go"), []byte("// Code generated by x. DO NOT EDIT.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for maxBytes, want := range map[int64]string{0: "a/a.go b/b.go c/c.go fmt/print.go", 200: "b/b.go fmt/print.go"} {
		files, err := GoSource(root, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			files[i], _ = filepath.Rel(root, files[i])
		}
		if got := strings.Join(files, " "); got != want {
			t.Errorf("maxBytes %d: %s, want %s", maxBytes, got, want)
		}
	}
	_, err := GoSource(t.TempDir(), 0)
	wantError(t, err, "no Go source")
}
