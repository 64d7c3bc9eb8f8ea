package data

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"

	"trireme/fault"
)

// source is the files of a path, and how to read them.
type source struct {
	path    string
	files   []string
	format  string // text, jsonl, csv, tsv, parquet or tokens
	field   string // key of the text
	lenient bool   // replace invalid UTF-8
	maxRow  int64  // maximum bytes of a row
	notes   []string
	splits  string // see Sets.Splits
	parts   []part // the rows to read; nil: all
	slices  string // parts as the configuration writes them

	// sameCut reports whether tokenizing two parts of a text separately gives the tokens of the
	// whole; nil: always.
	sameCut func(whole, before, after string) bool

	report func(Progress) // or nil
	total  int64          // bytes of the files
	read   atomic.Int64   // bytes read
}

// defaultMaxRow is the default of data.max_row_bytes.
const defaultMaxRow = 32 << 20

// newSource returns a source of files, at least one. format may be auto.
func (c Config) newSource(path string, files []string) (*source, error) {
	s := &source{path: path, files: files, format: c.kind(), field: c.columns().key("text"), lenient: c.InvalidUTF8 == utf8Replace, maxRow: c.MaxRowBytes}
	if s.maxRow == 0 {
		s.maxRow = defaultMaxRow
	}
	var err error
	switch s.format {
	case FormatGoSource:
		s.format = FormatText
	case FormatAuto, FormatText: // text is also a format of rows
		if s.format, err = oneFormat(files); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		s.total += st.Size()
	}
	return s, nil
}

// errStop stops reading without an error.
var errStop = errors.New("stop")

// entry is a row as its reader emits it: parsed, or a line of JSON for the encoding goroutine to
// parse.
type entry struct {
	at     origin
	line   []byte         // a JSON object; valid until the next entry
	fields map[string]any // if line is nil
	rest   bool           // continues the text of the previous entry
	more   bool           // the next entry continues this text
}

// spans returns the parts to read.
func (s *source) spans() []part {
	if s.parts == nil {
		return []part{{0, len(s.files), 0, math.MaxInt64}}
	}
	return s.parts
}

// eachEntry calls f for every selected row, in order.
func (s *source) eachEntry(f func(*entry) error) error {
	for _, p := range s.spans() {
		if err := s.eachOf(p, f); err != nil && !errors.Is(err, errPart) {
			return err
		}
	}
	return nil
}

// eachOf calls f for every row of a part.
func (s *source) eachOf(p part, f func(*entry) error) error {
	f, skip := p.window(f)
	for i := p.first; i < p.last; i++ {
		if s.format == FormatParquet {
			if err := s.readParquet(i, skip, f); err != nil {
				return err
			}
			continue
		}
		in, err := openStream(s.files[i], &s.read)
		if err != nil {
			return err
		}
		if err := errors.Join(s.readStream(i, in, f), in.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) readStream(file int, in io.Reader, f func(*entry) error) error {
	switch s.format {
	case FormatJSONL:
		return s.readJSON(file, in, f)
	case FormatCSV:
		return s.readCSV(file, in, f)
	case FormatTSV:
		return s.readTSV(file, in, f)
	}
	return s.readText(file, in, f)
}

// fill sets r from an entry. j belongs to the calling goroutine.
func (s *source) fill(r *record, e *entry, j *jsonReader) error {
	r.where, r.rest, r.more = e.at.in(s.files), e.rest, e.more
	if e.line == nil {
		r.fields = e.fields
		return nil
	}
	r.fields = map[string]any{}
	return j.object(e.line, r.fields)
}

// eachRecord calls f for every record, in order. errStop stops it without an error.
func (s *source) eachRecord(f func(*record) error) error {
	j := newJSONReader(s.lenient)
	err := s.eachEntry(func(e *entry) error {
		var r record
		if err := s.fill(&r, e, j); err != nil {
			return rowError(r.where, err)
		}
		return f(&r)
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (s *source) first() (*record, error) {
	var r *record
	err := s.eachRecord(func(x *record) error {
		r = x
		return errStop
	})
	if err == nil && r == nil {
		err = fault.Try(fmt.Errorf("data: %s has no rows", s.path), "another data.path")
		if s.slices != "" {
			err = fault.Try(fmt.Errorf("data: %s has no row of %s", s.path, s.slices), "a split that starts earlier")
		}
	}
	return r, err
}
