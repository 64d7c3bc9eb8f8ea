package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func listingOf(names ...string) *listing {
	l := &listing{commit: strings.Repeat("a", 40)}
	for _, name := range names {
		l.files = append(l.files, file{name: name, size: 1})
	}
	if err := l.check(); err != nil {
		panic(err)
	}
	return l
}

// TestSplits has layouts found on the hub.
func TestSplits(t *testing.T) {
	gsm := []string{"README.md", "main/test-00000-of-00001.parquet", "main/train-00000-of-00001.parquet", "socratic/test-00000-of-00001.parquet", "socratic/train-00000-of-00001.parquet"}
	chat := []string{"data/train_sft-00000-of-00002.parquet", "data/train_sft-00001-of-00002.parquet", "data/train_gen-00000-of-00001.parquet", "data/test_sft-00000-of-00001.parquet"}
	for _, x := range []struct {
		files  []string
		within string
		split  string
		want   []string
		err    string
	}{
		{[]string{"README.md", "data.jsonl"}, "", "train", []string{"data.jsonl"}, ""},
		{[]string{"a.txt", "b.txt", "requirements.txt", ".hidden/c.txt"}, "", "train", []string{"a.txt", "b.txt"}, ""},
		{[]string{"train.jsonl", "test.jsonl", "dev.jsonl"}, "", "train", []string{"train.jsonl"}, ""},
		{[]string{"train.jsonl", "test.jsonl", "dev.jsonl"}, "", "validation", []string{"dev.jsonl"}, ""},
		{[]string{"train.jsonl", "test.jsonl"}, "", "validation", nil, "data set o/n has no split validation: it has test, train. try: a pattern of files, such as o/n/test.jsonl@main"},
		{[]string{"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet"}, "", "train",
			[]string{"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"}, ""},
		{[]string{"data/train-00000-of-00003.parquet", "data/train-00002-of-00003.parquet"}, "", "train",
			[]string{"data/train-00000-of-00003.parquet", "data/train-00001-of-00003.parquet", "data/train-00002-of-00003.parquet"}, ""},
		{gsm, "main", "train", []string{"main/train-00000-of-00001.parquet"}, ""},
		{gsm, "", "train", nil, "has files of split train in 2 folders: main, socratic. try: o/n/main"},
		{gsm, "other", "train", nil, "has no data files (jsonl, json, csv, tsv, parquet, txt) at commit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa. try: one of its folders: main, socratic"},
		{gsm, "main/test-00000-of-00001.parquet", "train", []string{"main/test-00000-of-00001.parquet"}, ""},
		{gsm, "*/test-*.parquet", "train", []string{"main/test-00000-of-00001.parquet", "socratic/test-00000-of-00001.parquet"}, ""},
		{chat, "", "train", nil, "has no split train: it has test_sft, train_gen, train_sft"},
		{chat, "", "train_sft", []string{"data/train_sft-00000-of-00002.parquet", "data/train_sft-00001-of-00002.parquet"}, ""},
		{[]string{"en/c4-train.00000-of-00002.json.gz", "en/c4-train.00001-of-00002.json.gz", "en/c4-validation.00000-of-00001.json.gz"}, "en", "train",
			[]string{"en/c4-train.00000-of-00002.json.gz", "en/c4-train.00001-of-00002.json.gz"}, ""},
		{[]string{"sst2/train/0000.parquet", "sst2/train/0001.parquet", "sst2/test/0000.parquet"}, "sst2", "train", []string{"sst2/train/0000.parquet", "sst2/train/0001.parquet"}, ""},
		{[]string{"train/a/1.txt", "train/b/2.txt", "test/3.txt"}, "", "train", []string{"train/a/1.txt", "train/b/2.txt"}, ""},
		{[]string{"web-00000-of-00001.parquet"}, "", "train", []string{"web-00000-of-00001.parquet"}, ""},
		{[]string{"train.csv", "train.jsonl", "train-extra.jsonl"}, "", "train", []string{"train-extra.jsonl", "train.jsonl"}, ""},
		{[]string{"train.parquet", "train.csv"}, "", "train", []string{"train.parquet"}, ""},
		{[]string{"train.jsonl.zst", "latest.jsonl.zst"}, "", "train", []string{"train.jsonl.zst"}, ""},
		{[]string{"validation.jsonl"}, "", "train", nil, "it has validation"},
		{[]string{"README.md", "model.safetensors"}, "", "train", nil, "has no data file"},
	} {
		got, err := pickData(repo{kind: "dataset", id: "o/n"}, listingOf(x.files...), x.within, []string{x.split})
		if d := cmp.Diff(x.want, got); err == nil && d != "" {
			t.Errorf("%q within %q: %s", x.files, x.within, d)
		}
		if (err != nil) != (x.err != "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%q within %q: %v, want %q", x.files, x.within, err, x.err)
		}
	}
}

// TestPattern: the glob of a snapshot's pattern matches its files and no other file of the commit.
func TestPattern(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`(a|b|train|te\[st|x\*y|ö){1,3}(-[01]{1,2})?\.(txt|csv)`)
		files := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
			folder := rapid.SampledFrom([]string{"", "", "en/", "d?e/", "en/more/"}).Draw(t, "folder")
			return folder + name.Draw(t, "name")
		}), 1, 6, rapid.ID).Draw(t, "files")
		slices.Sort(files)
		k := rapid.IntRange(1, len(files)).Draw(t, "chosen")
		n++
		root := filepath.Join(dir, fmt.Sprintf("[%d]", n))
		for _, f := range files {
			path := filepath.Join(root, f)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := &Snapshot{Name: Name{ID: "o/n"}, Dir: root, Files: files[:k], others: files[k:]}
		pattern, err := s.Pattern()
		if err != nil {
			return // it says so
		}
		got := []string{pattern}
		if k > 1 {
			if got, err = filepath.Glob(pattern); err != nil {
				t.Fatal(err)
			}
			got = slices.DeleteFunc(got, func(path string) bool { // folders
				st, err := os.Stat(path)
				return err != nil || st.IsDir()
			})
		}
		var want []string
		for _, f := range files[:k] {
			want = append(want, filepath.Join(root, f))
		}
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", pattern, d)
		}
	})
	s := &Snapshot{Name: Name{ID: "o/n"}, Dir: "/d", Files: []string{"data/train-0.jsonl", "data/train-1.jsonl"}, others: []string{"data/test-0.jsonl"}}
	if p, err := s.Pattern(); err != nil || p != "/d/data/train-*.jsonl" {
		t.Errorf("%s, %v", p, err)
	}
	s.others = append(s.others, "data/train-x.jsonl")
	if _, err := s.Pattern(); err == nil || !strings.Contains(err.Error(), "no pattern matches the 2 files of") {
		t.Error(err)
	}
}
