package data

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"trireme/fault"
)

// maxTSVRow bounds a row of several lines, which is parsed again for each of them.
const maxTSVRow = 1 << 20

// readTSV reads the rows of tab-separated values below a header. Such files use quotes in two ways,
// and both are read: as plain characters, or around values as in CSV. A value is quoted if it
// starts with a quote and another quote ends it before a tab or the end of the row. It may contain
// line ends only if its row would otherwise lack fields.
func (s *source) readTSV(file int, in io.Reader, f func(*entry) error) error {
	name := s.files[file]
	var keys, row []string
	var text strings.Builder // of an unfinished row
	begin := int64(0)
	err := eachLine(in, name, s.maxRow, func(line []byte, number int64) (err error) {
		unfinished := text.Len() > 0
		if unfinished {
			text.WriteByte('\n')
		} else {
			begin = number
		}
		text.Write(line)
		if unfinished && bytes.IndexByte(line, '"') < 0 && text.Len() <= maxTSVRow {
			return nil
		}
		var open bool
		row, open = tabFields(row[:0], text.String())
		switch {
		case keys == nil && open:
			return fault.Try(fmt.Errorf("data: %s:%d: a quote in the header is not closed", name, begin), "close it")
		case keys == nil:
			text.Reset()
			if keys, err = s.header(row); err != nil {
				err = rowError(fmt.Sprintf("%s:%d", name, begin), err)
			}
			return err
		case open && (unfinished || len(row) < len(keys)) && text.Len() <= maxTSVRow:
			return nil
		case open && unfinished:
			return fault.Try(fmt.Errorf("data: %s:%d: a quote is not closed within %d KiB", name, begin, maxTSVRow>>10), "close it, or double it")
		case len(row) != len(keys):
			return fieldCountError(name, begin, len(row), len(keys))
		}
		text.Reset()
		return s.emitRow(lineOf(file, begin), keys, row, f)
	})
	if err == nil && text.Len() > 0 {
		err = fault.Try(fmt.Errorf("data: %s:%d: %d fields, but the header has %d, and a quote is not closed", name, begin, len(row), len(keys)), "close it, or double it")
	}
	return err
}

// tabFields appends the fields of a row. open reports that one starts with a quote that is not
// closed, which is then part of it.
func tabFields(fields []string, row string) (all []string, open bool) {
	for {
		value, rest, ok := quotedField(row)
		if !ok {
			value, _, _ = strings.Cut(row, "\t")
			rest = row[len(value):]
			open = open || strings.HasPrefix(row, `"`) && endOfQuote(row) < 0
		}
		fields = append(fields, value)
		if rest == "" {
			return fields, open
		}
		row = rest[1:]
	}
}

// quotedField returns a quoted value at the start of a row, and the rest: empty, or a tab and more.
func quotedField(row string) (value, rest string, ok bool) {
	if !strings.HasPrefix(row, `"`) {
		return "", "", false
	}
	end := endOfQuote(row)
	if end < 0 || end+1 < len(row) && row[end+1] != '\t' {
		return "", "", false
	}
	return strings.ReplaceAll(row[1:end], `""`, `"`), row[end+1:], true
}

// endOfQuote returns the index of the quote that closes the one at the start of row, or -1. A
// doubled quote does not close it.
func endOfQuote(row string) int {
	for i := 1; i < len(row); i++ {
		if row[i] != '"' {
			continue
		}
		if i+1 == len(row) || row[i+1] != '"' {
			return i
		}
		i++
	}
	return -1
}
