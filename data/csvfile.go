package data

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// readCSV gives the rows of a file of comma-separated values below its header; every value is
// a string. A row has as many fields as the header. Quoted fields may hold line ends.
func (s *source) readCSV(file int, in io.Reader, f func(*entry) error) error {
	name := s.files[file]
	l := &limiter{Reader: in}
	l.reset()
	r := csv.NewReader(l)
	r.ReuseRecord = true
	row, err := r.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return csvError(name, 0, 0, err)
	}
	keys, err := header(row)
	if err != nil {
		return rowError(name+":1", err)
	}
	for {
		l.reset()
		row, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return csvError(name, len(row), len(keys), err)
		}
		line, _ := r.FieldPos(0)
		if err := s.giveRow(lineOf(file, int64(line)), keys, row, f); err != nil {
			return err
		}
	}
}

// giveRow gives the values of a row below their keys.
func (s *source) giveRow(at place, keys, row []string, f func(*entry) error) (err error) {
	e := entry{at: at, fields: make(map[string]any, len(keys))}
	for i, value := range row {
		if value, err = s.cleanText(value, keys[i]); err != nil {
			return rowError(at.in(s.files), err)
		}
		e.fields[keys[i]] = value
	}
	return f(&e)
}

func header(row []string) ([]string, error) {
	keys := make([]string, len(row))
	seen := map[string]bool{}
	for i, k := range row {
		k = strings.TrimSpace(k)
		if !utf8.ValidString(k) {
			return nil, invalidText(fmt.Sprintf("invalid UTF-8 in the name of column %d", i+1))
		}
		if seen[k] && k != "" {
			return nil, fmt.Errorf("the header has the column %q twice. try: another name for one of them", k)
		}
		keys[i], seen[k] = k, true
	}
	return keys, nil
}

func fieldCountError(name string, line int64, got, want int) error {
	return fmt.Errorf("data: %s:%d: %d fields, but the header has %d. try: put fields that hold the separator in quotes", name, line, got, want)
}

// csvError says where and what is wrong with a row of got fields, below a header of want.
func csvError(name string, got, want int, err error) error {
	var p *csv.ParseError
	if !errors.As(err, &p) {
		if errors.Is(err, errLong) {
			return fmt.Errorf("data: %s: a row is %w: a quote is not closed. try: each quote in a field twice", name, errLong)
		}
		return err
	}
	switch {
	case errors.Is(p.Err, csv.ErrFieldCount):
		return fieldCountError(name, int64(p.StartLine), got, want)
	case errors.Is(p.Err, csv.ErrBareQuote), errors.Is(p.Err, csv.ErrQuote):
		return fmt.Errorf(`data: %s:%d: a lone quote at line %d, column %d. try: put the field in quotes, and each quote in it twice`, name, p.StartLine, p.Line, p.Column)
	}
	return rowError(fmt.Sprintf("%s:%d", name, p.StartLine), p.Err)
}
