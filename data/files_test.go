package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folder creates files in a temporary directory.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string][2]string{
		"a.jsonl": {FormatJSONL, ""}, "a.JSON.GZ": {FormatJSONL, "gz"}, "d.v1/a.csv.zst": {FormatCSV, "zst"}, "a.tsv": {FormatTSV, ""},
		"train-00000-of-00002.parquet": {FormatParquet, ""}, "x.tok": {FormatTokens, ""}, "x.gz": {FormatText, "gz"}, "README": {FormatText, ""},
	} {
		if format, compression := formatOf(name); format != want[0] || compression != want[1] {
			t.Errorf("%s is %s, %s", name, format, compression)
		}
	}
}

func TestSplitOf(t *testing.T) {
	for name, want := range map[string]string{
		"train.jsonl": splitTrain, "data/train-00000-of-00002.parquet": splitTrain, "my_train_file.csv": splitTrain, "wiki.train.txt": splitTrain,
		"train/part.jsonl.gz": splitTrain, "validation.json": splitValidation, "dev.tsv": splitValidation, "val/a.csv": splitValidation,
		"test.jsonl": splitTest, "eval_set.csv": splitTest, "train/test.jsonl": splitTest, "en/train/x/part-1.jsonl": splitTrain,
		"trainer.jsonl": "", "latest.jsonl": "", "train.py": "", "test_x.go": "", "contest/a.jsonl": "",
	} {
		if got := splitOf(name); got != want {
			t.Errorf("%s is of %q, want %q", name, got, want)
		}
	}
}

// filesOf returns the names below root that findFiles finds.
func filesOf(t testing.TB, root, path, format string) (names []string, splits map[string][]string) {
	t.Helper()
	f, err := findFiles(filepath.Join(root, path), format)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range f.files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.ToSlash(name))
	}
	return names, f.splits
}

func TestFindFiles(t *testing.T) {
	root := folder(t, map[string]string{
		"README.md": "x", "LICENSE": "x", "dataset_infos.json": "x", ".git/config": "x", "empty.jsonl": "",
		"a.jsonl": "x", "sub/b.jsonl.gz": "x", "sub/deep/c.jsonl": "x", "sub/d.txt": "x",
	})
	for _, c := range []struct{ path, format, want string }{
		{"", "", "a.jsonl sub/b.jsonl.gz sub/d.txt sub/deep/c.jsonl"},
		{"", FormatJSONL, "a.jsonl sub/b.jsonl.gz sub/deep/c.jsonl"},
		{"", FormatText, "sub/d.txt"},
		{"sub/deep", FormatText, "sub/deep/c.jsonl"},
		{"*.jsonl", "", "a.jsonl"},
		{"**/*.jsonl", "", "a.jsonl sub/deep/c.jsonl"},
		{"**/deep/*.jsonl", "", "sub/deep/c.jsonl"},
		{"s*/**/*.jsonl*", "", "sub/b.jsonl.gz sub/deep/c.jsonl"},
		{"a.jsonl", "", "a.jsonl"},
	} {
		if got, _ := filesOf(t, root, c.path, c.format); strings.Join(got, " ") != c.want {
			t.Errorf("%s as %s: %q, want %s", c.path, c.format, got, c.want)
		}
	}
	for path, want := range map[string]string{
		"*.csv": "no non-empty file matches", "none": "none", "empty.jsonl": "is empty", "**/x/**/y": "twice", "[": "[",
	} {
		_, err := findFiles(filepath.Join(root, path), "")
		wantError(t, err, want)
	}
}

// A folder's splits are those that `datasets` finds.
func TestFolderSplits(t *testing.T) {
	row := func(text string) string { return `{"text": "` + text + `"}` + "\n" }
	tok := bytesTokenizer(t)
	for _, c := range []struct {
		files               map[string]string
		train, eval, splits string
	}{
		{map[string]string{"train.jsonl": row("aaa"), "validation.jsonl": row("bbb"), "test.jsonl": row("ccc"), "other.jsonl": row("ddd")}, "aaa$", "bbb$", "train is 1 of 4 files; validation is 1 (evaluation set); test is 1, not read; 1 without a split, not read"},
		{map[string]string{"data/train-0-of-2.jsonl": row("aaa"), "data/train-1-of-2.jsonl": row("eee"), "data/test-0-of-1.jsonl": row("ccc")}, "aaa$ eee$", "ccc$", "train is 2 of 3 files; test is 1 (evaluation set)"},
		{map[string]string{"a.jsonl": row("aaa"), "test.jsonl": row("ccc")}, "aaa$ ccc$", "", ""},
		{map[string]string{"a.jsonl": row("aaa"), "b.jsonl": row("bbb")}, "aaa$ bbb$", "", ""},
	} {
		cfg := textConfig(t, folder(t, c.files))
		s := open(t, cfg, tok)
		eval := ""
		if s.Eval != nil {
			eval = strings.Join(texts(t, s.Eval, tok), " ")
		}
		if got := strings.Join(texts(t, s.Train, tok), " "); got != c.train || eval != c.eval || s.Splits != c.splits {
			t.Errorf("%v: trains on %s, evaluates on %s: %s", c.files, got, eval, s.Splits)
		}
		cfg.EvalFraction = 0.5
		if c.train == "aaa$" {
			continue
		}
		if s := open(t, cfg, tok); s.Eval.Len() != 1 || s.Train.Len() != 1 {
			t.Errorf("%v: %d rows are evaluated but not trained on", c.files, s.Eval.Len())
		}
	}
	dir := folder(t, map[string]string{"train.jsonl": row("aaa"), "dev.jsonl": row("bbb")})
	cfg := textConfig(t, write(t, "x.txt", "other"))
	cfg.EvalPath = dir
	if got := texts(t, open(t, cfg, tok).Eval, tok); !slices.Equal(got, []string{"bbb$"}) {
		t.Errorf("eval_path: %q", got)
	}
}

// A document with a split in its name hides the others of its folder, which is noted.
func TestUnreadFiles(t *testing.T) {
	files := map[string]string{"local_train.txt": "aaa", "b.txt": "bbb", "deep/c.txt": "ccc"}
	dir := folder(t, files)
	s := open(t, textConfig(t, dir), bytesTokenizer(t))
	all := filepath.Join(dir, "**", "*")
	want := "2 of 3 files are not read, because names of others contain the split train, such as " + filepath.Join(dir, "local_train.txt") + ". try: data.path: '" + all + "', for all files"
	if !slices.Equal(s.Notes, []string{want}) {
		t.Errorf("notes %q, want %q", s.Notes, want)
	}
	if s := open(t, textConfig(t, all), bytesTokenizer(t)); len(s.Notes) != 0 || s.Train.Info().Tokens != 12 {
		t.Errorf("%s: %d tokens, notes %q", all, s.Train.Info().Tokens, s.Notes)
	}
	if found, err := TextFiles(dir); err != nil || len(found) != 3 {
		t.Errorf("TextFiles found %q, %v", found, err)
	}
}

// A run in a folder of data is not data.
func TestRunsAreNotData(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "aaa", "runs/x-1/run.json": "{}", "runs/x-1/config.yaml": "name: x", "runs/b.txt": "bbb"})
	for _, path := range []string{"", "**/*.*"} {
		if got, _ := filesOf(t, dir, path, ""); strings.Join(got, " ") != "a.txt runs/b.txt" {
			t.Errorf("%q: %q", path, got)
		}
	}
}

// Folders of save_to_disk are named in the error, with the command that converts them.
func TestSavedDatasets(t *testing.T) {
	arrow := "\xff\xff\xff\xff\xf0\x00\x00\x00\x10\x00\x00\x00" + strings.Repeat("\x00", 300)
	one := map[string]string{"data-00000-of-00001.arrow": arrow, "state.json": "{}", "dataset_info.json": "{}"}
	dir := folder(t, one)
	_, err := findFiles(dir, "")
	wantError(t, err, dir+" was written by datasets' save_to_disk", "save_to_disk", "datasets.load_from_disk('"+dir+"').to_parquet('data.parquet')")
	_, err = records(t, Config{}, filepath.Join(dir, "data-00000-of-00001.arrow"))
	wantError(t, err, "data-00000-of-00001.arrow: it is an Arrow file", "datasets.load_from_disk('"+dir+"').to_parquet")
	many := map[string]string{"dataset_dict.json": `{"splits": ["train"]}`}
	for name, text := range one {
		many["train/"+name] = text
	}
	dir = folder(t, many)
	_, err = findFiles(dir, "")
	wantError(t, err, dir+" was written by datasets' save_to_disk", "datasets.load_from_disk('"+dir+"').items()")
	for name, want := range map[string]string{"x.arrow": "Dataset.from_file", "x.jsonl": "not jsonl", "x.bin.gz": "decompressed, it is"} {
		text := arrow
		if strings.HasSuffix(name, ".gz") {
			text = packedAs(t, "gz", text)
		}
		_, err = (&source{files: []string{write(t, name, text)}, format: FormatText}).first()
		wantError(t, err, name, "an Arrow file", want)
	}
}

func TestFolderOneFormat(t *testing.T) {
	tok := bytesTokenizer(t)
	cfg := textConfig(t, folder(t, map[string]string{"a.jsonl": `{"text": "aaa"}`, "b.csv": "text\nbbb\n", "c.txt": "ccc"}))
	_, err := Open(t.Context(), cfg, ModelInfo{}, tok, nil)
	wantError(t, err, "a.jsonl is jsonl", "b.csv is csv", "data.format")
	cfg.Format = FormatCSV
	if got := texts(t, open(t, cfg, tok).Train, tok); !slices.Equal(got, []string{"bbb$"}) {
		t.Errorf("format csv: %q", got)
	}
}
