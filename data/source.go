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

// source is the files that a configuration names, and how to read them.
type source struct {
	path    string
	files   []string
	format  string // text, jsonl, csv, tsv, parquet or tokens
	field   string // of the text
	lenient bool   // what is not UTF-8 is replaced
	maxRow  int64  // bytes of the largest row
	notes   []string
	splits  string // what names told, where these are some of a folder's files
	parts   []part // rows of the files that are read; nil: all
	slices  string // what the configuration calls them

	// sameCut says whether a text has the tokens of its two parts, one after the other; nil:
	// cut anywhere.
	sameCut func(whole, before, after string) bool

	report func(Progress) // or nil
	total  int64          // bytes of the files
	read   atomic.Int64   // bytes of them that were read
}

// defaultMaxRow is data.max_row_bytes where the configuration has none.
const defaultMaxRow = 32 << 20

// newSource reads files, which are not none. format may be auto.
func (c Config) newSource(path string, files []string) (*source, error) {
	s := &source{path: path, files: files, format: c.kind(), field: c.columns().key("text"), lenient: c.InvalidUTF8 == utf8Replace, maxRow: c.MaxRowBytes}
	if s.maxRow == 0 {
		s.maxRow = defaultMaxRow
	}
	var err error
	switch s.format {
	case FormatGoSource:
		s.format = FormatText
	case FormatAuto, FormatText: // of rows that have a text, text is what they are
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

// errStop ends the reading of a source early.
var errStop = errors.New("stop")

// entry is a row of a file as its reader hands it over: parsed, or a line of JSON that still
// is to be, by whoever has the time.
type entry struct {
	at     origin
	line   []byte         // a JSON object; overwritten by the next
	fields map[string]any // where line is nil
	rest   bool           // the text goes on from the entry before
	more   bool           // and goes on in the next
}

// spans are the parts that are read.
func (s *source) spans() []part {
	if s.parts == nil {
		return []part{{0, len(s.files), 0, math.MaxInt64}}
	}
	return s.parts
}

// eachEntry calls f with every row that is read of the files, in order.
func (s *source) eachEntry(f func(*entry) error) error {
	for _, p := range s.spans() {
		if err := s.eachOf(p, f); err != nil && !errors.Is(err, errPart) {
			return err
		}
	}
	return nil
}

// eachOf calls f with every row of a part.
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

// fill makes r of an entry. j is the caller's own.
func (s *source) fill(r *record, e *entry, j *jsonReader) error {
	r.where, r.rest, r.more = e.at.in(s.files), e.rest, e.more
	if e.line == nil {
		r.fields = e.fields
		return nil
	}
	r.fields = map[string]any{}
	return j.object(e.line, r.fields)
}

// eachRecord calls f with every record of the files, in order. errStop ends it early, without
// an error.
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

// first is the first record of the files.
func (s *source) first() (*record, error) {
	var r *record
	err := s.eachRecord(func(x *record) error {
		r = x
		return errStop
	})
	if err == nil && r == nil {
		err = fault.Try(fmt.Errorf("data: %s holds no rows", s.path), "another data.path")
		if s.slices != "" {
			err = fault.Try(fmt.Errorf("data: %s has no row of %s", s.path, s.slices), "a split that begins earlier")
		}
	}
	return r, err
}
