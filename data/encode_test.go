package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"trireme/tokenizer"
)

// words is lines of words, some long, with repeated spaces and blank lines.
func words(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < n {
		for range 1 + r.IntN(9) {
			b.WriteString("abcdefgh"[:1+r.IntN(8)])
			b.WriteString([]string{" ", " ", " ", "  ", ", ", "é ", " 12 ", "'s "}[r.IntN(8)])
		}
		if r.IntN(2) == 0 {
			b.WriteString("end")
		}
		b.WriteString([]string{"\n", "\n", "\n", "\n\n", " \n", "\r\n", "\n  "}[r.IntN(7)])
	}
	return strings.ToValidUTF8(b.String()[:n], "?")
}

// A long text read in pieces has the tokens of the whole.
func TestLongTextTokens(t *testing.T) {
	prose := words(textPiece + textPiece/2)
	tokenizers := []string{"tokenizers/gpt2", "tokenizers/gpt-neox-20b", "tokenizers/qwen2.5", "tokenizers/mistral", "tokenizers/bert-base-uncased"}
	texts := map[string]string{
		"lines": prose, "one line": strings.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return ' '
			}
			return r
		}, prose),
	}
	for _, dir := range tokenizers {
		tok, err := tokenizer.Load(shared(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range texts {
			path := write(t, "x.txt", text)
			s, err := Config{}.newSource(path, []string{path})
			if err != nil {
				t.Fatal(err)
			}
			enc := newTextEncoder("text", tok)
			s.sameCut = enc.sameCut
			var got []int32
			pieces := 0
			if _, err := s.encode(t.Context(), enc, func(d *document) error {
				got = append(got, d.ids...)
				pieces++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			want := slices.Concat(enc.prefix, tok.Encode(text, tokenizer.Options{}), enc.suffix)
			if pieces != 2 {
				t.Errorf("%s, %s: %d pieces", dir, name, pieces)
			}
			if !slices.Equal(got, want) {
				i := 0
				for i < min(len(got), len(want)) && got[i] == want[i] {
					i++
				}
				t.Errorf("%s, %s: %d tokens, want %d; the first difference at %d: %q", dir, name, len(got), len(want), i, tok.Decode(want[max(0, i-5):i+5]))
			}
		}
	}
}

// Text without a line end or space is cut between characters.
func TestTextWithoutLines(t *testing.T) {
	for _, text := range []string{strings.Repeat("漢字", textPiece/4), strings.Repeat(" ", 2*textPiece), strings.Repeat("\n", 2*textPiece), strings.Repeat("a\n\n", textPiece),
		words(textPiece + cutContext - 1), words(textPiece + cutContext), words(textPiece + cutContext + 1)} {
		path := write(t, "x.txt", text)
		all, err := records(t, Config{}, path)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i, r := range all {
			if r.rest != (i > 0) || r.more != (i < len(all)-1) {
				t.Errorf("record %d of %d: %v, %v", i, len(all), r.rest, r.more)
			}
			b.WriteString(r.fields["text"].(string))
		}
		if b.String() != text {
			t.Errorf("%q...: %d bytes are %d", text[:6], len(text), b.Len())
		}
	}
	text := strings.Repeat("line\n", textPiece/2) + "\xff"
	_, err := records(t, Config{}, write(t, "x.txt", text))
	wantError(t, err, fmt.Sprintf("x.txt:%d: invalid UTF-8", textPiece/2+1))
}

// numbers encodes {"n": 5} as five times 5; 0 has no labels, negative is an error.
type numbers struct{ seen *atomic.Int64 }

func (numbers) fingerprint() string { return "numbers" }

func (e numbers) encode(r *record, ex *example) (bool, error) {
	n, ok := r.fields["n"].(int64)
	if !ok || n < 0 {
		return false, fmt.Errorf("no number: %v", r.fields["n"])
	}
	e.seen.Add(1)
	for range n {
		ex.IDs = append(ex.IDs, int32(n))
	}
	return n > 0, nil
}

func numberLines(n int, at map[int]string) string {
	var b strings.Builder
	for i := range n {
		if line, ok := at[i]; ok {
			b.WriteString(line + "\n")
			continue
		}
		fmt.Fprintf(&b, "{\"n\": %d, \"pad\": %q}\n", i%7, strings.Repeat("x", i%900))
	}
	return b.String()
}

func TestEncodeOrder(t *testing.T) {
	path := write(t, "x.jsonl", numberLines(4000, nil))
	run := func(threads int) (out []byte, skipped int64, last Progress) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		s, err := Config{}.newSource(path, []string{path})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		s.report = func(p Progress) {
			if p.Done < last.Done || p.Total != s.total {
				t.Errorf("progress %+v after %+v", p, last)
			}
			calls, last = calls+1, p
		}
		skipped, err = s.encode(t.Context(), numbers{new(atomic.Int64)}, func(d *document) error {
			out = fmt.Append(out, d.ids, d.at.in(s.files), "\n")
			return nil
		})
		if err != nil || calls < 5 || last.Done != s.total {
			t.Errorf("%v; %d calls, the last %+v", err, calls, last)
		}
		return out, skipped, last
	}
	one, skipped, _ := run(1)
	if skipped != 572 || bytes.Count(one, []byte("\n")) != 4000-572 {
		t.Errorf("%d skipped, %d rows", skipped, bytes.Count(one, []byte("\n")))
	}
	for _, threads := range []int{2, 5} {
		if got, _, _ := run(threads); !bytes.Equal(got, one) {
			t.Errorf("%d threads: different result", threads)
		}
	}
}

func TestEncodeFirstError(t *testing.T) {
	bad := map[int]string{1500: `{"n": -1}`, 1501: `{`, 3900: `{"n": "x"}`}
	path := write(t, "x.jsonl", numberLines(4000, bad))
	for _, threads := range []int{1, 4} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			s, err := Config{}.newSource(path, []string{path, "no/such.jsonl"}[:1])
			if err != nil {
				t.Fatal(err)
			}
			rows := 0
			_, err = s.encode(t.Context(), numbers{new(atomic.Int64)}, func(*document) error { rows++; return nil })
			wantError(t, err, "x.jsonl:1501: no number: -1")
			if want := 1500 - 215; rows != want {
				t.Errorf("%d rows before it, want %d", rows, want)
			}
		}()
	}
}

func TestEncodeCanceled(t *testing.T) {
	path := write(t, "x.jsonl", numberLines(40000, nil))
	s, err := Config{}.newSource(path, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	_, err = s.encode(t.Context(), numbers{new(atomic.Int64)}, func(*document) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen := new(atomic.Int64)
	_, err = s.encode(ctx, numbers{seen}, func(*document) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || seen.Load() > 30000 {
		t.Errorf("error %v after %d rows", err, seen.Load())
	}
}

// An interrupted run leaves nothing in the cache; files of a killed one are removed.
func TestCacheAtomic(t *testing.T) {
	tok := bytesTokenizer(t)
	c := textConfig(t, write(t, "x.jsonl", strings.Repeat("{\"text\": \"some words\"}\n", 100)+"{}\n"))
	_, err := Open(t.Context(), c, ModelInfo{}, tok, nil)
	wantError(t, err, "x.jsonl:101", "no key")
	left := func(pattern string) []string {
		files, err := filepath.Glob(filepath.Join(c.CacheDir, "tokens", pattern))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	locks := left("*.lock")
	if all := left("*"); len(all) != 1 || len(locks) != 1 {
		t.Fatalf("left: %v", all)
	}
	orphan := strings.TrimSuffix(locks[0], ".lock") + ".tmp123"
	if err := os.WriteFile(orphan, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), c, ModelInfo{}, tok, nil)
	wantError(t, err, "x.jsonl:101")
	if files := left("*.tmp*"); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
}
