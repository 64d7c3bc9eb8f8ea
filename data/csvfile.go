package data

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"trireme/fault"
)

// readCSV reads comma-separated values below a header; every value is a string. The field count is
// the header's. Quoted fields may contain line ends.
func (s *source) readCSV(file int, in io.Reader, f func(*entry) error) error {
	name := s.files[file]
	r := newCSVReader(in, name, s.maxRow)
	row, err := r.read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	keys, err := s.header(row)
	if err != nil {
		return rowError(fmt.Sprintf("%s:%d", name, r.start), err)
	}
	for {
		row, err := r.read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(row) != len(keys) {
			return fieldCountError(name, r.start, len(row), len(keys))
		}
		if err := s.emitRow(lineOf(file, r.start), keys, row, f); err != nil {
			return err
		}
	}
}

// emitRow emits a row as fields.
func (s *source) emitRow(at origin, keys, row []string, f func(*entry) error) (err error) {
	e := entry{at: at, fields: make(map[string]any, len(keys))}
	for i, value := range row {
		if value, err = s.cleanText(value, keys[i]); err != nil {
			return rowError(at.in(s.files), err)
		}
		e.fields[keys[i]] = value
	}
	return f(&e)
}

func (s *source) header(row []string) ([]string, error) {
	keys := make([]string, len(row))
	seen := map[string]bool{}
	for i, k := range row {
		k = strings.TrimSpace(k)
		if !utf8.ValidString(k) && !s.lenient {
			return nil, invalidText(fmt.Sprintf("invalid UTF-8 in the name of column %d", i+1))
		}
		k = strings.ToValidUTF8(k, "\ufffd")
		if seen[k] && k != "" {
			return nil, fault.Try(fmt.Errorf("duplicate column %q in the header", k), "another name for one of them")
		}
		keys[i], seen[k] = k, true
	}
	return keys, nil
}

func fieldCountError(name string, line int64, got, want int) error {
	return fault.Try(fmt.Errorf("data: %s:%d: %d fields, but the header has %d", name, line, got, want), "quote fields that contain the separator")
}
