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
)

// kindOf is the format of a file by the ending of its name, below which .gz and .zst may be.
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

// The parts of a data set that the names in a folder tell of, as `datasets` reads them.
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

// splitOf is the split that a file's path below its folder names: by the first word of that
// kind in its name, or else in the folder nearest to it. Text has splits only as .txt: in a
// folder of programs train.py is one of them.
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

// found is the files that a path names.
type found struct {
	files  []string
	splits map[string][]string // of a folder where some file is for training; else nil
	named  map[string][]string // of a folder, by split, those whose names contain one
	empty  []string            // files of rows without a byte, which are skipped
}

// heldOut is validation, or else test, or "" where there are files for neither.
func (f found) evalSplit() string {
	for _, split := range []string{splitValidation, splitTest} {
		if f.splits[split] != nil {
			return split
		}
	}
	return ""
}

// tell says which of the files are read where names show splits; held is the evaluation set.
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
			text += fmt.Sprintf("; %d of no split not read", n)
		case split == evalOn:
			text += fmt.Sprintf("; %s is %d, the evaluation set", split, n)
		default:
			text += fmt.Sprintf("; %s is %d, not read", split, n)
		}
	}
	return text
}

// findFiles lists what a path names: a file, a folder with all below it, or a glob, in which
// ** is any number of folders. Files are sorted. Of a folder, hidden and empty files are
// passed over, and so are those that describe data.
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
		return found{}, fault.Try(fmt.Errorf("data: %s is a data set that the library datasets saved with save_to_disk, in Arrow files, which are not read here", path), "%s", convertSaved(path))
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
		return f, fault.Try(fmt.Errorf("data: no file with anything in it is called %s", path), "ls %s", path)
	}
	return f, nil
}

// withContent leaves out files that are empty, or no files. Empty ones that would hold rows are
// noted; a text may be empty.
func (f *found) withoutEmpty(files []string) []string {
	return slices.DeleteFunc(files, func(path string) bool {
		st, err := os.Stat(path) // of what a link names: caches of downloads are made of them
		if err == nil && st.Mode().IsRegular() && st.Size() > 0 {
			return false
		}
		if format, _ := formatOf(path); err == nil && st.Mode().IsRegular() && format != FormatText && !isMetadata(path) {
			f.empty = append(f.empty, path)
		}
		return true
	})
}

// isSaved says whether a folder is what Dataset.save_to_disk or DatasetDict.save_to_disk writes.
func isSaved(dir string) bool {
	return isFile(filepath.Join(dir, "dataset_dict.json")) || isFile(filepath.Join(dir, "dataset_info.json")) && isFile(filepath.Join(dir, "state.json"))
}

// convertSaved is the command that makes Parquet of such a folder.
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
		return f, fault.Try(fmt.Errorf("data: %s holds no file with anything in it", root), "another data.path")
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

// withRows leaves out Parquet files without rows, unless there are no others.
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

// emptyNote lists the files that were skipped: without a byte, and without a row.
func emptyNote(bytes, rows []string) (notes []string) {
	for _, e := range []struct {
		files []string
		what  string
	}{{bytes, "0 bytes"}, {rows, "0 rows"}} {
		switch n := len(e.files); {
		case n == 1:
			notes = append(notes, fmt.Sprintf("%s has %s and is skipped", e.files[0], e.what))
		case n > 1:
			notes = append(notes, fmt.Sprintf("%d files have %s and are skipped, the first is %s", n, e.what, e.files[0]))
		}
	}
	return notes
}

// describes says whether a file is about the data beside it.
func isMetadata(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	switch name {
	case "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "_success":
		return true
	}
	stem, _, _ := strings.Cut(name, ".")
	return stem == "readme" || stem == "license"
}

// walk calls f with the files below root that are not hidden, sorted.
func walk(root string, f func(path string)) error {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && strings.HasPrefix(d.Name(), ".") {
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

// glob lists the files of a pattern, sorted. Between its slashes ** is any number of folders.
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
		return nil, fault.Try(fmt.Errorf("data: %s: ** is there twice", pattern), "once")
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

// oneFormat is the format of files, by the endings of their names.
func oneFormat(files []string) (string, error) {
	first, _ := formatOf(files[0])
	for _, f := range files[1:] {
		if format, _ := formatOf(f); format != first {
			return "", fault.Try(fmt.Errorf("data: %s is %s and %s is %s: one run reads one format", files[0], first, f, format), "%s, or a glob", fault.Set("data.format", format))
		}
	}
	return first, nil
}
