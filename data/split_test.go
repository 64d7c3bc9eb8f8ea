package data

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestSplitsAsDatasets: testdata/splits.json has the results of ReadInstruction in datasets 5.2.
func TestSplitsAsDatasets(t *testing.T) {
	b, err := os.ReadFile("testdata/splits.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Split             string
		Train, Validation int64
		Rows              [][3]any
		Refused           bool
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range cases {
		parts, err := parseSplit(c.Split)
		if err != nil {
			t.Errorf("%s: %v", c.Split, err)
			continue
		}
		n := map[string]int64{splitTrain: c.Train, splitValidation: c.Validation}
		for i, s := range parts {
			from, to, err := s.rows(n[s.split])
			if (err != nil) != c.Refused {
				t.Errorf("%s of %d rows: %v, refused by datasets: %t", c.Split, n[s.split], err, c.Refused)
			}
			if c.Refused || err != nil {
				continue
			}
			// A bound beyond the last row is not clipped unless rows were counted: nothing is read
			// there.
			from, to = min(from, n[s.split]), min(to, n[s.split])
			if want := c.Rows[i]; want[0] != s.split || int64(want[1].(float64)) != from || int64(want[2].(float64)) != to {
				t.Errorf("%s of %d rows: [%d, %d), datasets takes %v", c.Split, n[s.split], from, to, want)
			}
		}
	}
}

func FuzzParseSplit(f *testing.F) {
	for _, s := range []string{"train", "train[:1000]", "val[-10%:]+test", "train[10:20%](closest)", "train[99999999999999999999:]", "train[:1%](pct1_dropremainder)", "+", ""} {
		f.Add(s, int64(1000))
	}
	f.Fuzz(func(t *testing.T, text string, n int64) {
		all, err := parseSplit(text)
		if err != nil || n < 0 || n > math.MaxInt32 {
			return
		}
		for _, s := range all {
			if from, to, err := s.rows(n); err == nil && (from < 0 || to < 0 || s.counts() && (from > n || to > n)) {
				t.Errorf("%q of %d rows is [%d, %d)", text, n, from, to)
			}
		}
	})
}

// firstIDs returns the first tokens of the rows of a dataset.
func firstIDs(t *testing.T, d Dataset) (ids []int32) {
	t.Helper()
	if d == nil {
		return nil
	}
	var r Row
	for i := range d.Len() {
		if err := d.Row(i, &r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.InputIDs[0])
	}
	return ids
}

// writeRows writes rows [from, to), whose first token is their number.
func writeRows(t *testing.T, path string, from, to int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	type row struct {
		InputIDs []int64 `parquet:"input_ids,list" json:"input_ids"`
	}
	var rows []row
	var lines strings.Builder
	for i := from; i < to; i++ {
		rows = append(rows, row{[]int64{int64(i), 1, 2}})
		fmt.Fprintf(&lines, "{\"input_ids\": [%d, 1, 2]}\n", i)
	}
	switch filepath.Ext(path) {
	case ".parquet":
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := parquet.NewGenericWriter[row](f, parquet.MaxRowsPerRowGroup(4))
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	default:
		if err := os.WriteFile(path, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func span(from, to int32) (ids []int32) {
	for i := from; i < to; i++ {
		ids = append(ids, i)
	}
	return ids
}

func TestSplitSlices(t *testing.T) {
	for _, ext := range []string{".jsonl", ".parquet"} {
		t.Run(ext, func(t *testing.T) {
			dir := t.TempDir()
			plain, folder := filepath.Join(dir, "rows"+ext), filepath.Join(dir, "set")
			writeRows(t, plain, 0, 30)
			writeRows(t, filepath.Join(folder, "train-1"+ext), 0, 13)
			writeRows(t, filepath.Join(folder, "train-2"+ext), 13, 20)
			writeRows(t, filepath.Join(folder, "validation"+ext), 100, 110)
			writeRows(t, filepath.Join(folder, "test"+ext), 200, 205)
			for _, c := range []struct {
				path, split, eval string
				fraction          float64
				train, evalRows   []int32
				summary           string
			}{
				{path: plain, split: "train[:5]", train: span(0, 5), summary: "split train[:5]"},
				{path: plain, split: "train[10%:50%]", eval: "train[-3:]", train: span(3, 15), evalRows: span(27, 30), summary: "split train[10%:50%], eval_split train[-3:]"},
				{path: plain, split: "train[25:1000]", train: span(25, 30)},
				{path: plain, eval: "train[:4]", train: span(0, 30), evalRows: span(0, 4)},
				{path: folder, split: "train[10:15]", train: span(10, 15), evalRows: span(100, 110), summary: "split train[10:15], evaluation on validation"},
				{path: folder, split: "train[12:14]+validation[:2]", train: append(span(12, 14), 100, 101), evalRows: nil},
				{path: folder, split: "train", eval: "dev[50%:]+test[:1]", train: span(0, 20), evalRows: append(span(105, 110), 200)},
				{path: folder, split: "validation", eval: "test", train: span(100, 110), evalRows: span(200, 205)},
				{path: folder, split: "train[:4]+train[2:6]", eval: "test", train: append(span(0, 4), span(2, 6)...), evalRows: span(200, 205)},
			} {
				sets, err := Open(context.Background(), Config{Path: c.path, Split: c.split, EvalSplit: c.eval, CacheDir: dir}, ModelInfo{}, nil, nil)
				if err != nil {
					t.Errorf("%q, %q: %v", c.split, c.eval, err)
					continue
				}
				train, evalRows := firstIDs(t, sets.Train), firstIDs(t, sets.Eval)
				if !slices.Equal(train, c.train) || !slices.Equal(evalRows, c.evalRows) || c.summary != "" && sets.Splits != c.summary {
					t.Errorf("%q, %q: %v and evaluation on %v (%s)", c.split, c.eval, train, evalRows, sets.Splits)
				}
				sets.Close()
			}
			for _, c := range []struct{ path, split, eval, want string }{
				{plain, "train[40:]", "", "has no row of train[40:] (data.split)"},
				{plain, "train[20:10]", "", "split: train[20:10] selects no row"},
				{plain, "train[:1%]", "", "split: train[:1%] selects none of the 30 rows"},
				{plain, "validation[:5]", "", "try: train[:5]"},
				{plain, "val[:5]", "", "all rows are train, none are validation. try: train[:5]"},
				{folder, "train[:5]", "train[:1%](pct1_dropremainder)", "eval_split: train[:1%](pct1_dropremainder): pct1_dropremainder needs 100 rows, the split has 20"},
				{plain, "trian", "", `split: "trian" is not one of train, validation, test. did you mean "train"?`},
				{plain, "train[:5", "", `split: "train[:5" is not a split. try: train, train[:1000]`},
				{plain, "train[:101%]", "", "101% is not between"},
			} {
				_, err := Open(context.Background(), Config{Path: c.path, Split: c.split, EvalSplit: c.eval, CacheDir: dir}, ModelInfo{}, nil, nil)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%q, %q: %v, want %q", c.split, c.eval, err, c.want)
				}
			}
		})
	}
}

// Rows after a slice are not read, and Parquet groups before it are skipped: damage there is not
// detected.
func TestSplitStopsReading(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	writeRows(t, path, 0, 8)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("{damaged\n")
	f.Close()
	for split, ok := range map[string]bool{"train[:8]": true, "train[:9]": false} {
		sets, err := Open(context.Background(), Config{Path: path, Split: split}, ModelInfo{}, nil, nil)
		if (err == nil) != ok {
			t.Errorf("%s: %v", split, err)
		}
		if err == nil {
			sets.Close()
		}
	}
}

// Overlapping training and evaluation sets are noted.
func TestOverlappingSplits(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "other.jsonl")
	writeRows(t, path, 0, 10)
	writeRows(t, other, 0, 10)
	for _, c := range []struct {
		Config
		common bool
	}{
		{Config{Split: "train[:5]", EvalSplit: "train[5:]"}, false},
		{Config{Split: "train[:50%]", EvalSplit: "train[-60%:]"}, true},
		{Config{EvalSplit: "train[:1]"}, true},
		{Config{Split: "train[:2]+train[8:]", EvalSplit: "train[2:8]"}, false},
		{Config{EvalPath: path}, true},
		{Config{EvalPath: other}, false},
		{Config{EvalPath: other, EvalSplit: "train[:3]"}, false},
		{Config{EvalFraction: 0.2}, false},
	} {
		c.Path = path
		train, _, err := c.sources()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(train.notes, "\n"), "overlap"); got != c.common {
			t.Errorf("%+v: notes %q", c.Config, train.notes)
		}
	}
}

// Text has whole splits, but no slices.
func TestSplitOfText(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train.txt", "test.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("some text of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{Path: dir, Split: "train+test"}
	train, _, err := c.sources()
	if err != nil || len(train.files) != 2 {
		t.Errorf("%v, %v", train, err)
	}
	c.Split = "train[:100]"
	if _, _, err := c.sources(); err == nil || !strings.Contains(err.Error(), "train[:100] selects rows, but text files have no rows") {
		t.Error(err)
	}
}
