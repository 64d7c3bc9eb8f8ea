package data

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"trireme/fault"
	"trireme/internal/rundir"
)

// formatOf returns a file's format by its extension, before .gz or .zst.
func formatOf(file string) (format, compression string) {
	name := strings.ToLower(filepath.Base(file))
	ext := filepath.Ext(name)
	switch ext {
	case ".gz", ".zst":
		compression = ext[1:]
		ext = filepath.Ext(strings.TrimSuffix(name, ext))
	}
	switch ext {
	case ".jsonl", ".json", ".ndjson":
		return FormatJSONL, compression
	case ".csv":
		return FormatCSV, compression
	case ".tsv":
		return FormatTSV, compression
	case ".parquet":
		return FormatParquet, compression
	case ".tok", ".bin", ".npy":
		return FormatTokens, compression
	}
	return FormatText, compression
}

// Splits that file names may contain, as in `datasets`.
const (
	splitTrain      = "train"
	splitValidation = "validation"
	splitTest       = "test"
)

var splitWords = map[string]string{
	"train": splitTrain, "training": splitTrain,
	"validation": splitValidation, "valid": splitValidation, "val": splitValidation, "dev": splitValidation,
	"test": splitTest, "testing": splitTest, "eval": splitTest, "evaluation": splitTest,
}

// splitOf returns the split in a file's path below its folder: the first such word in its name, or
// else in the nearest folder. Text files have splits only with .txt: among source files, train.py
// is not a split.
func splitOf(path string) string {
	format, _ := formatOf(path)
	if format == FormatText && !strings.Contains(strings.ToLower(filepath.Base(path)), ".txt") {
		return ""
	}
	parts := strings.Split(filepath.ToSlash(path), "/")
	for _, part := range slices.Backward(parts) {
		for _, word := range strings.FieldsFunc(strings.ToLower(part), func(r rune) bool { return !unicode.IsLetter(r) }) {
			if split := splitWords[word]; split != "" {
				return split
			}
		}
	}
	return ""
}

// found is the files of a path.
type found struct {
	files  []string
	splits map[string][]string // by split, if a folder has training files; else nil
	named  map[string][]string // by split, files of a folder whose names contain one
	empty  []string            // files of 0 bytes, skipped; not text
}

// evalSplit returns validation, or else test, or "" if there are files of neither.
func (f found) evalSplit() string {
	for _, split := range []string{splitValidation, splitTest} {
		if f.splits[split] != nil {
			return split
		}
	}
	return ""
}

// summary lists the files per split; evalOn is the evaluation set's.
func (f found) summary(evalOn string) string {
	if f.splits == nil {
		return ""
	}
	text := fmt.Sprintf("%s is %d of %d files", splitTrain, len(f.splits[splitTrain]), len(f.files))
	for _, split := range []string{splitValidation, splitTest, ""} {
		n := len(f.splits[split])
		switch {
		case n == 0:
		case split == "":
			text += fmt.Sprintf("; %d without a split, not read", n)
		case split == evalOn:
			text += fmt.Sprintf("; %s is %d (evaluation set)", split, n)
		default:
			text += fmt.Sprintf("; %s is %d, not read", split, n)
		}
	}
	return text
}

// unreadNote warns if most files below dir are not read because others have a split in their names,
// as a document named local_train.txt among many.
func (f found) unreadNote(dir string) string {
	unread, named := len(f.splits[""]), f.splits[splitTrain]
	if f.splits == nil || unread <= len(f.files)/2 {
		return ""
	}
	return fmt.Sprintf("%d of %d files are not read, because names of others contain the split train, such as %s. try: data.path: '%s', for all files",
		unread, len(f.files), named[0], filepath.Join(dir, "**", "*"))
}

// TextFiles lists the files of a path, sorted: a file, a directory (recursive) or a glob. Hidden, empty
// and metadata files of a directory are skipped; splits in file names have no effect.
func TextFiles(path string) ([]string, error) {
	f, err := findFiles(path, "")
	return f.files, err
}

// findFiles lists the files of a path, sorted: a file, a folder (recursive), or a glob with ** for
// any number of folders. Hidden, empty and metadata files of a folder are skipped.
func findFiles(path, format string) (found, error) {
	st, err := os.Stat(path)
	switch {
	case err == nil && st.Mode().IsRegular():
		if st.Size() == 0 {
			return found{}, fault.Try(fmt.Errorf("data: %s is empty", path), "another data.path")
		}
		return found{files: []string{path}}, nil
	case err == nil && !st.IsDir():
		return found{}, fault.Try(fmt.Errorf("data: %s is neither a file nor a folder", path), "another data.path")
	case err == nil && isSaved(path):
		return found{}, fault.Try(fmt.Errorf("data: %s was written by datasets' save_to_disk: Arrow files are not supported", path), "%s", convertSaved(path))
	case err == nil:
		return findInFolder(path, format)
	case !strings.ContainsAny(path, "*?["):
		return found{}, fmt.Errorf("data: %w", err)
	}
	var f found
	if f.files, err = glob(path); err != nil {
		return f, err
	}
	f.files = f.withoutEmpty(f.files)
	if len(f.files) == 0 {
		return f, fault.Try(fmt.Errorf("data: no non-empty file matches %s", path), "ls %s", path)
	}
	return f, nil
}

// withoutEmpty removes empty files and what is not a file. Empty files of rows are noted; a text
// may be empty.
func (f *found) withoutEmpty(files []string) []string {
	return slices.DeleteFunc(files, func(path string) bool {
		st, err := os.Stat(path) // follows links, which download caches use
		if err == nil && st.Mode().IsRegular() && st.Size() > 0 {
			return false
		}
		if format, _ := formatOf(path); err == nil && st.Mode().IsRegular() && format != FormatText && !isMetadata(path) {
			f.empty = append(f.empty, path)
		}
		return true
	})
}

// isSaved reports whether Dataset.save_to_disk or DatasetDict.save_to_disk wrote a folder.
func isSaved(dir string) bool {
	return isFile(filepath.Join(dir, "dataset_dict.json")) || isFile(filepath.Join(dir, "dataset_info.json")) && isFile(filepath.Join(dir, "state.json"))
}

// convertSaved is the command that converts such a folder to Parquet.
func convertSaved(dir string) string {
	if isFile(filepath.Join(dir, "dataset_dict.json")) {
		return fmt.Sprintf(`python -c "import datasets, os; os.makedirs('data'); [d.to_parquet('data/' + n + '.parquet') for n, d in datasets.load_from_disk('%s').items()]"`, dir)
	}
	return fmt.Sprintf(`python -c "import datasets; datasets.load_from_disk('%s').to_parquet('data.parquet')"`, dir)
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

func findInFolder(root, format string) (found, error) {
	f := found{splits: map[string][]string{}}
	fits := format == "" || format == FormatAuto
	var others []string
	err := walk(root, func(path string) {
		if kind, _ := formatOf(path); !fits && kind != format {
			others = append(others, path)
		} else if !isMetadata(path) {
			f.files = append(f.files, path)
		}
	})
	if err != nil {
		return f, err
	}
	f.files, others = f.withoutEmpty(f.files), f.withoutEmpty(others)
	if len(f.files) == 0 {
		f.files = others
	}
	if len(f.files) == 0 {
		return f, fault.Try(fmt.Errorf("data: %s has no non-empty file", root), "another data.path")
	}
	for _, path := range f.files {
		below, err := filepath.Rel(root, path)
		if err != nil {
			return f, fmt.Errorf("data: %w", err)
		}
		split := splitOf(below)
		f.splits[split] = append(f.splits[split], path)
	}
	f.named = maps.Clone(f.splits)
	delete(f.named, "")
	if len(f.splits[splitTrain]) == 0 {
		f.splits = nil
	}
	return f, nil
}

// withRows removes Parquet files without rows, unless there are no others.
func withRows(files []string) (with, without []string) {
	for _, path := range files {
		if format, _ := formatOf(path); format == FormatParquet && len(files) > 1 && emptyParquet(path) {
			without = append(without, path)
		} else {
			with = append(with, path)
		}
	}
	if with == nil {
		return files, nil
	}
	return with, without
}

// emptyNote lists skipped files: without bytes, and without rows.
func emptyNote(bytes, rows []string) (notes []string) {
	for _, e := range []struct {
		files []string
		what  string
	}{{bytes, "0 bytes"}, {rows, "0 rows"}} {
		switch n := len(e.files); {
		case n == 1:
			notes = append(notes, fmt.Sprintf("skipped %s: %s", e.files[0], e.what))
		case n > 1:
			notes = append(notes, fmt.Sprintf("skipped %d files: %s, such as %s", n, e.what, e.files[0]))
		}
	}
	return notes
}

// isMetadata reports whether a file describes the data beside it.
func isMetadata(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	switch name {
	case "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "_success":
		return true
	}
	stem, _, _ := strings.Cut(name, ".")
	return stem == "readme" || stem == "license"
}

// walk calls f for the files below root that are not hidden, sorted. It skips directories of runs, so
// that a run does not read its own records.
func walk(root string, f func(path string)) error {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		isRun := d.IsDir() && isFile(filepath.Join(path, rundir.Identity))
		if path != root && (isRun || strings.HasPrefix(d.Name(), ".")) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.IsDir() {
			f(path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

// glob lists the files of a pattern, sorted. Between slashes ** matches any number of folders.
func glob(pattern string) ([]string, error) {
	before, after, deep := strings.Cut(pattern, "**/")
	if !deep {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fault.Try(fmt.Errorf("data: %s: %w", pattern, err), "close the [, or put \\ before it")
		}
		return files, nil
	}
	if strings.Contains(after, "**") {
		return nil, fault.Try(fmt.Errorf("data: %s: ** occurs twice", pattern), "once")
	}
	roots, err := filepath.Glob(filepath.Clean(before + "."))
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", pattern, err)
	}
	depth := strings.Count(after, "/") + 1
	var files []string
	for _, root := range roots {
		err := walk(root, func(path string) {
			below := strings.Split(strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(root)+"/"), "/")
			if len(below) < depth {
				return
			}
			if ok, _ := filepath.Match(after, strings.Join(below[len(below)-depth:], "/")); ok {
				files = append(files, path)
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	slices.Sort(files)
	return files, nil
}

// oneFormat returns the format of files by their extensions.
func oneFormat(files []string) (string, error) {
	first, _ := formatOf(files[0])
	for _, f := range files[1:] {
		if format, _ := formatOf(f); format != first {
			return "", fault.Try(fmt.Errorf("data: %s is %s and %s is %s: a run reads one format", files[0], first, f, format), "%s, or a glob", fault.Set("data.format", format))
		}
	}
	return first, nil
}
