package data

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// openRows opens a file of token ids with c's sequence_length and truncate.
func openRows(t testing.TB, path string, c Config) (Dataset, error) {
	t.Helper()
	c.Path = path
	s, err := Open(t.Context(), c, ModelInfo{}, nil, nil)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Train, nil
}

func TestRowsFile(t *testing.T) {
	rows, err := openRows(t, shared(t, "golden/llama-mha/data.jsonl"), Config{SequenceLength: 48})
	if err != nil {
		t.Fatal(err)
	}
	if rows.Len() != 24 || rows.Info().Length != 48 || rows.Info().Docs {
		t.Fatalf("%d rows, %+v", rows.Len(), rows.Info())
	}
	var r Row
	if err := rows.Row(2, &r); err != nil || r.InputIDs[0] != 225 || r.Labels[47] != 21 {
		t.Errorf("row 2: %v, %v", r, err)
	}
	if w := rows.Where(2); !strings.HasSuffix(w, "data.jsonl:3") {
		t.Errorf("row 2 is at %s", w)
	}
}

func TestRowsLabelsAndMasks(t *testing.T) {
	path := write(t, "a.jsonl", `{"input_ids": [1, 2, 3]}

{"input_ids": [4, 5, 0], "labels": [-100, 5, -100], "attention_mask": [1, 1, 0]}
{"input_ids": [0, 6, 7], "attention_mask": [0, 1, 1]}
{"input_ids": [1, 0, 3, 0], "attention_mask": [1, 0, 1, 0]}
{"input_ids": [8, 9], "label": 1}
`)
	rows, err := openRows(t, path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Info{Length: 3, Tokens: 12, MaxID: 9, Docs: true, Classes: true, Labels: true, LabelCount: 7}); rows.Info() != want {
		t.Errorf("info %+v, want %+v", rows.Info(), want)
	}
	for i, want := range []Row{
		{[]int32{1, 2, 3}, []int32{1, 2, 3}, []int32{0, 0, 0}, Ignored, nil},
		{[]int32{4, 5}, []int32{Ignored, 5}, []int32{0, 0}, Ignored, nil},
		{[]int32{6, 7}, []int32{6, 7}, []int32{0, 0}, Ignored, nil},
		{[]int32{1, 0, 3}, []int32{1, Ignored, 3}, []int32{0, -1, 0}, Ignored, nil},
		{[]int32{8, 9}, []int32{8, 9}, []int32{0, 0}, 1, nil},
	} {
		var r Row
		if err := rows.Row(i, &r); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.InputIDs, want.InputIDs) || !slices.Equal(r.Labels, want.Labels) || !slices.Equal(r.Docs, want.Docs) || r.Class != want.Class {
			t.Errorf("row %d: %+v, want %+v", i, r, want)
		}
	}
	if w := rows.Where(1); !strings.HasSuffix(w, "a.jsonl:3") {
		t.Errorf("wrong line after a blank line: %s", w)
	}
}

func TestRowsErrors(t *testing.T) {
	for _, c := range []struct {
		content string
		length  int
		vocab   int
		want    []string
	}{
		{"\n\n", 0, 0, []string{"has no rows"}},
		{"{\"input_ids\": [1]}\n{\"text\": \"a\", \"id\": 1}", 0, 0, []string{"x.jsonl:2", "no input_ids", "keys id, text"}},
		{"{\"input_ids\": [1]}\n{\"input_ids\": []}", 0, 0, []string{"x.jsonl:2", "empty"}},
		{`{"input_ids": null}`, 0, 0, []string{"x.jsonl:1", "empty"}},
		{`{"input_ids": "1 2"}`, 0, 0, []string{"input_ids is a string, not a list"}},
		{`{"input_ids": [1, 2.5]}`, 0, 0, []string{"input_ids: the number 2.5, not an integer"}},
		{`{"input_ids": [1,2], "labels": [1]}`, 0, 0, []string{"labels has length 1"}},
		{`{"input_ids": [1,2], "attention_mask": [1]}`, 0, 0, []string{"attention_mask has length 1"}},
		{`{"input_ids": [1,2], "labels": [1, -7]}`, 0, 0, []string{"label -7"}},
		{`{"input_ids": [1,2], "label": "good"}`, 0, 0, []string{"label: a string"}},
		{`{"input_ids": [1,2,3]}`, 2, 0, []string{"x.jsonl:1", "3 tokens", "sequence_length 2"}},
		{"{\"input_ids\": [1,4]}\n{\"input_ids\": [1,500]}", 0, 500, []string{"x.jsonl:2", "id 500", "vocabulary of 500"}},
		{`{"input_ids": [1,2], "labels": [1, 99]}`, 0, 50, []string{"id 99", "vocabulary of 50"}},
		{`{"input_ids": [-1]}`, 0, 0, []string{"-1 is negative"}},
		{`{"input_ids": [1`, 0, 0, []string{"x.jsonl:1", "not a JSON object", "unexpected EOF"}},
		{`{"input_ids": [4000000000]}`, 0, 0, []string{"4000000000 is too large: integers are limited to 2147483647"}},
		{`[1, 2]`, 0, 0, []string{"x.jsonl (row 1)", "a number, not a JSON object"}},
		{"{\"input_ids\": [1]}\n\x00\x01", 0, 0, []string{"x.jsonl:2: NUL byte"}},
	} {
		_, err := Open(t.Context(), Config{Path: write(t, "x.jsonl", c.content), SequenceLength: c.length}, ModelInfo{Vocab: c.vocab}, nil, nil)
		t.Run(c.want[len(c.want)-1], func(t *testing.T) { wantError(t, err, c.want...) })
	}
	_, err := openRows(t, "no/such.jsonl", Config{})
	wantError(t, err, "no/such.jsonl")
}

func TestRowsTruncate(t *testing.T) {
	rows, err := openRows(t, write(t, "x.jsonl", `{"input_ids": [1,2,3], "labels": [1,2,-100]}`), Config{SequenceLength: 2, Truncate: true})
	if err != nil || rows.Info().Length != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
}

func FuzzRow(f *testing.F) {
	f.Add([]byte(`{"input_ids": [1,2], "labels": [1,-100], "attention_mask": [1,0], "label": 3}`))
	f.Add([]byte(`{"input_ids": null}`))
	f.Add([]byte(`{"input_ids": [0], "attention_mask": [0]}`))
	f.Add([]byte(`{"input_ids": [5, 6, 7], "labels": [-100, 9, 7], "attention_mask": [0, 1, 1]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r := record{fields: map[string]any{}}
		ex := example{Class: Ignored}
		if newJSONReader(false).object(line, r.fields) != nil {
			return
		}
		if ok, err := (rowEncoder{}).encode(&r, &ex); err != nil || !ok {
			return
		}
		tf := tokens(t, 0, document{ids: []int32{1, 2}, class: Ignored}, document{ids: ex.IDs, labels: ex.Labels, hidden: ex.Hidden, class: ex.Class})
		defer tf.close()
		ch, err := tf.selectDocs(selectConfig{minLen: 1, maxLen: 8, truncate: true})
		if err != nil {
			t.Fatal(err)
		}
		d := &documents{ch}
		var row Row
		if err := d.Row(1, &row); err != nil {
			t.Fatal(err)
		}
		from, to := 0, len(ex.IDs) // without what is hidden at both ends
		for ; len(ex.Hidden) > 0 && from+1 < to && ex.Hidden[to-1]; to-- {
		}
		for ; len(ex.Hidden) > 0 && from+1 < to && ex.Hidden[from]; from++ {
		}
		if to = min(to, from+8); !slices.Equal(row.InputIDs, ex.IDs[from:to]) || row.Class != ex.Class || d.Tokens(1) != to-from {
			t.Fatalf("row %+v of %+v", row, ex)
		}
		for i, id := range row.InputIDs {
			want := id
			if len(ex.Labels) > 0 {
				want = ex.Labels[from+i]
			}
			if len(ex.Hidden) > 0 && ex.Hidden[from+i] {
				want = Ignored
			}
			if row.Labels[i] != want {
				t.Fatalf("label %d of %+v is %d", i, ex, row.Labels[i])
			}
		}
		if _, err := NewLoader(d, LoaderConfig{MicroBatchSize: 1}); d.Info().Length > 1 && err != nil {
			t.Fatal(err)
		}
	})
}

func TestPositions(t *testing.T) {
	train := write(t, "train.jsonl", `{"input_ids": [1,2,3]}`)
	eval := write(t, "eval.jsonl", `{"input_ids": [1,2,3,4,5,6]}`)
	for _, c := range []struct {
		length  int
		longest bool
		want    int
	}{{0, false, 6}, {4, false, 4}, {4, true, 4}, {99, false, 99}, {99, true, 6}} {
		cfg := Config{Path: train, EvalPath: eval, SequenceLength: c.length, PadToLongest: c.longest, Truncate: true}
		sets, err := Open(t.Context(), cfg, ModelInfo{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := sets.SequenceLength(cfg); got != c.want {
			t.Errorf("sequence_length %d, pad_to_longest %v: %d positions, not %d", c.length, c.longest, got, c.want)
		}
		if err := sets.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Many rows are cached, few are not.
func TestRowsCached(t *testing.T) {
	row := `{"input_ids": [` + strings.Repeat("12345, ", 20000) + `1], "label": 2}` + "\n"
	for n, kept := range map[int]int{2: 0, smallRows/len(row) + 1: 1} {
		c := Config{Path: write(t, "x.jsonl", strings.Repeat(row, n)), CacheDir: t.TempDir()}
		for range 2 {
			s := open(t, c, nil)
			var r Row
			if err := s.Train.Row(n-1, &r); err != nil || len(r.InputIDs) != 20001 || r.InputIDs[20000] != 1 || r.Class != 2 {
				t.Errorf("row of %d ids, class %d, %v", len(r.InputIDs), r.Class, err)
			}
		}
		files, err := filepath.Glob(filepath.Join(c.CacheDir, "tokens", "*.tok"))
		if err != nil || len(files) != kept {
			t.Errorf("%d rows: cached %v, %v", n, files, err)
		}
	}
}
