package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"trireme/fault"
)

// readJSON reads objects: one per line, or a list of them.
func (s *source) readJSON(file int, in io.Reader, f func(*entry) error) error {
	name := s.files[file]
	r := bufio.NewReaderSize(in, 1<<20)
	list, err := beginsList(r, name)
	if err != nil {
		return err
	}
	var e entry
	if list {
		return eachElement(r, name, s.maxRow, func(value []byte, row int64) error {
			e.at, e.line = rowOf(file, row), value
			return f(&e)
		})
	}
	return eachLine(r, name, s.maxRow, func(line []byte, number int64) error {
		e.at, e.line = lineOf(file, number), line
		return f(&e)
	})
}

// beginsList reports whether a JSON file is a list. It rejects a file whose first object spans
// lines: the rows are inside it, or it is pretty-printed.
func beginsList(r *bufio.Reader, name string) (bool, error) {
	head, err := r.Peek(1 << 16)
	if err != nil && err != io.EOF {
		return false, err
	}
	text := bytes.TrimLeft(head, " \t\r\n")
	if len(text) == 0 || text[0] != '{' {
		return len(text) > 0 && text[0] == '[', nil
	}
	end := bytes.IndexByte(text, '\n')
	if end < 0 || len(bytes.TrimSpace(text[end:])) == 0 {
		return false, nil
	}
	if _, err := jsontext.NewDecoder(bytes.NewReader(text[:end])).ReadValue(); !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	key := ""
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err == nil {
		if t, err := d.ReadToken(); err == nil && t.Kind() == '"' {
			key = fmt.Sprintf(" (first key %q)", t.String())
		}
	}
	return false, fault.Try(fmt.Errorf("data: %s: the first object spans several lines%s; expected one object per line, or a list of objects", name, key), "jq -c '.KEY[]' if KEY has the rows, else jq -c .")
}

// eachElement calls f for every element of the JSON list read from in, with its number from 1. The
// element is valid until the next.
func eachElement(in io.Reader, name string, limit int64, f func(value []byte, row int64) error) error {
	l := &limiter{Reader: in, limit: limit}
	l.reset()
	d := jsontext.NewDecoder(l, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return elementError(name, 1, err)
	}
	row := int64(1)
	for ; d.PeekKind() != ']'; row++ {
		l.reset()
		value, err := d.ReadValue()
		if errors.Is(err, errLong) {
			return tooLarge(fmt.Sprintf("%s (row %d)", name, row), "the element", limit, false, limit)
		}
		if err != nil {
			return elementError(name, row, err)
		}
		if err := f(value, row); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return elementError(name, row, err)
	}
	if _, err := d.ReadToken(); err == nil {
		return fault.Try(fmt.Errorf("data: %s: data after the list", name), ".jsonl, with one object per line")
	} else if err != io.EOF {
		return elementError(name, row, err)
	}
	return nil
}

// elementError adds the row to a syntax error.
func elementError(name string, row int64, err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax):
		err = fmt.Errorf("not JSON: %w at byte %d", syntax.Err, syntax.ByteOffset)
	default:
		return err
	}
	return rowError(fmt.Sprintf("%s (row %d)", name, row), err)
}
