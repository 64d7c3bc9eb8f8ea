package data

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func identityOf(t *testing.T, c Config) Fingerprint {
	t.Helper()
	s, err := Open(context.Background(), c, ModelInfo{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Fingerprint(context.Background())
}

// TestFingerprint: content matters, not path or time.
func TestFingerprint(t *testing.T) {
	write := func(path, text string) string {
		path = filepath.Join(t.TempDir(), path)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const rows = `{"input_ids": [1, 2, 3]}` + "\n" + `{"input_ids": [4, 5, 6], "labels": [-100, 5, 6]}` + "\n"
	c := DefaultConfig()
	c.Path = write("rows.jsonl", rows)
	first := identityOf(t, c)
	if len(first.Train) != 32 || first.Eval != "" || first.Tokenizer != "" {
		t.Fatalf("%+v", first)
	}
	c.Path = write("others.jsonl", strings.ReplaceAll(rows, " ", ""))
	if got := identityOf(t, c); got != first {
		t.Errorf("the same rows in another file: %+v, not %+v", got, first)
	}
	for name, text := range map[string]string{
		"a token": strings.Replace(rows, "3]", "7]", 1), "a label": strings.Replace(rows, "-100", "4", 1),
		"an end": `{"input_ids": [1, 2]}` + "\n" + `{"input_ids": [3, 4, 5, 6], "labels": [3, -100, 5, 6]}` + "\n",
	} {
		c.Path = write("rows.jsonl", text)
		if got := identityOf(t, c); got == first {
			t.Errorf("another %s: the same fingerprint", name)
		}
	}
	c.Path, c.EvalPath = write("rows.jsonl", rows), write("eval.jsonl", strings.Replace(rows, "3]", "7]", 1))
	if got := identityOf(t, c); got.Train != first.Train || got.Eval == "" || got.Eval == got.Train {
		t.Errorf("with an evaluation set: %+v", got)
	}
}

// TestFingerprintCached: the digest of a cached file is computed once.
func TestFingerprintCached(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tok")
	f := &tokenFile{data: []byte("abcd"), ids: []byte("abcd"), at: path, cached: true}
	first := f.content(context.Background())
	f.ids = []byte("changed")
	if got := f.content(context.Background()); got != first {
		t.Errorf("%s, then %s", first, got)
	}
	if err := os.WriteFile(path+".sum", []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := f.content(context.Background()); got == first || len(got) != 64 {
		t.Errorf("a truncated digest was accepted: %s", got)
	}
}

// TestSamples: a large file's first and last bytes and length matter.
func TestSamples(t *testing.T) {
	big := make([]byte, sampledAbove+1<<20)
	f := &tokenFile{data: big, ids: big}
	of := func() string { return f.content(context.Background()) }
	seen := map[string]bool{of(): true}
	for _, at := range []int{0, len(big) - 1, sampleBlock - 1} {
		big[at] ^= 1
		if s := of(); seen[s] {
			t.Errorf("byte %d does not change the digest", at)
		} else {
			seen[s] = true
		}
	}
	f.ids = big[:len(big)-1]
	if seen[of()] {
		t.Error("the length does not change the digest")
	}
}
