package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// source is the files that a configuration names, and how to read them.
type source struct {
	path   string
	files  []string
	format string // text, jsonl or tokens
	rows   bool   // jsonl whose lines hold input_ids
	field  string // of jsonl's text
}

// openSource finds the files and the format.
func openSource(c Config, path string) (*source, error) {
	s := &source{path: path, format: c.Format, field: c.textField()}
	var err error
	if c.Format == FormatGo {
		s.files, err = GoSource(path, c.MaxBytes)
		s.format = FormatText
		return s, err
	}
	if s.files, err = listFiles(path); err != nil {
		return nil, err
	}
	if s.format == "" || s.format == FormatAuto {
		s.format = formatOf(s.files[0])
	}
	if s.format == FormatJSONL {
		err = eachLine(s.files[0], func(line []byte, _ int) error {
			s.rows = isRow(line)
			return errStop
		})
		if err != nil && !errors.Is(err, errStop) {
			return nil, err
		}
	}
	return s, nil
}

// errStop ends eachLine early.
var errStop = errors.New("stop")

func formatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".jsonl", ".json", ".ndjson":
		return FormatJSONL
	case ".tok":
		return FormatTokens
	}
	return FormatText
}

// listFiles is the files that a path, a glob or a directory names, sorted. Hidden files of a
// directory are passed over, and so are empty ones.
func listFiles(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err == nil && !st.IsDir() {
		if st.Size() == 0 {
			return nil, fmt.Errorf("data: %s is empty", path)
		}
		return []string{path}, nil
	}
	var files []string
	if err == nil {
		err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if p != path && strings.HasPrefix(d.Name(), ".") {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if info, err := d.Info(); err == nil && d.Type().IsRegular() && info.Size() > 0 {
				files = append(files, p)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	} else {
		found, globErr := filepath.Glob(path)
		if globErr != nil {
			return nil, fmt.Errorf("data: %s: %w", path, globErr)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("data: %w", err)
		}
		for _, p := range found {
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
				files = append(files, p)
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("data: %s holds no file with anything in it", path)
	}
	sort.Strings(files)
	return files, nil
}

// document is one text and where it came from.
type document struct {
	where string
	text  string
}

// documents calls f with every document that is not empty, in order.
func (s *source) documents(f func(document) error) error {
	for _, path := range s.files {
		var err error
		if s.format == FormatJSONL {
			err = eachLine(path, func(line []byte, number int) error {
				where := fmt.Sprintf("%s:%d", path, number)
				text, err := s.text(line)
				if err != nil {
					return fmt.Errorf("data: %s: %w", where, err)
				}
				if text == "" {
					return nil
				}
				return f(document{where, text})
			})
		} else {
			err = textFile(path, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// text is the text of a JSON line.
func (s *source) text(line []byte) (string, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		return "", fmt.Errorf("not a JSON object: %w", err)
	}
	raw, ok := m[s.field]
	if !ok {
		return "", fmt.Errorf("no key %q: the line has keys %s. try: --set data.text_field=...", s.field, keys(line))
	}
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil || text == nil {
		return "", fmt.Errorf("the value of %q is not a string", s.field)
	}
	return *text, nil
}

// textFile hands over a file as one document.
func textFile(path string, f func(document) error) error {
	blob, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if i := bytes.IndexByte(blob, 0); i >= 0 {
		return binaryError(path, int64(i))
	}
	if len(blob) == 0 {
		return nil
	}
	return f(document{path, string(blob)})
}
