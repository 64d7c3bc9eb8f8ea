package data

import (
	"bufio"
	"fmt"
	"io"

	"trireme/fault"
)

// csvReader reads comma-separated values as Python's csv module does: a line ends with LF, CRLF or
// CR, which are part of the value inside quotes. Blank lines are skipped. Unlike there, a quote
// inside an unquoted value is an error.
type csvReader struct {
	r     *bufio.Reader
	name  string // of the file
	limit int64  // bytes of a row
	line  int64  // of the last byte read, from 1
	start int64  // line where the last row starts

	text []byte // concatenated values of a row
	ends []int
	row  []string
}

func newCSVReader(in io.Reader, name string, limit int64) *csvReader {
	return &csvReader{r: bufio.NewReaderSize(in, 1<<18), name: name, limit: limit, line: 1}
}

// Parser states.
const (
	csvRow    = iota // before its first byte
	csvValue         // before the first byte of a value
	csvPlain         // in a value without quotes
	csvQuoted        // within quotes
	csvQuote         // after a quote within quotes: closing, or first of two
)

// read returns the values of the next row, valid until the next call, or io.EOF.
func (c *csvReader) read() ([]string, error) {
	c.text, c.ends = c.text[:0], c.ends[:0]
	at, column, openLine, openColumn := csvRow, 0, int64(0), 0
	for size := int64(1); ; size++ {
		if at == csvPlain || at == csvQuoted {
			n := c.plain(at == csvQuoted, c.limit-size)
			size, column = size+int64(n), column+n
		}
		b, err := c.r.ReadByte()
		switch {
		case err == io.EOF && at == csvRow:
			return nil, err
		case err == io.EOF && at == csvQuoted:
			return nil, fault.Try(fmt.Errorf("data: %s:%d: the quote at line %d, column %d is not closed", c.name, c.start, openLine, openColumn), "close it, or double the quotes inside a field")
		case err == io.EOF:
			return c.values(), nil
		case err != nil:
			return nil, err
		case size > c.limit:
			return nil, c.tooLong(at == csvQuoted, openLine, openColumn)
		}
		column++
		end := c.endsLine(b)
		if at == csvRow {
			if b == '\n' || b == '\r' {
				c.next(end, &column)
				size = 0
				continue
			}
			at, c.start = csvValue, c.line
		}
		switch {
		case at == csvQuoted && b == '"':
			at = csvQuote
		case at == csvQuoted:
			c.text = append(c.text, b)
			c.next(end, &column)
		case b == '"' && at == csvValue:
			at, openLine, openColumn = csvQuoted, c.line, column
		case b == '"' && at == csvQuote:
			at = csvQuoted
			c.text = append(c.text, b)
		case b == ',':
			at = csvValue
			c.ends = append(c.ends, len(c.text))
		case b == '\r' && !end: // LF follows
		case end:
			c.next(end, &column)
			return c.values(), nil
		case at == csvQuote:
			return nil, c.loneQuote(column - 1)
		case b == '"':
			return nil, c.loneQuote(column)
		default:
			at = csvPlain
			c.text = append(c.text, b)
		}
	}
}

// plain consumes buffered bytes of a value up to one that may end it or a line, up to limit bytes,
// and returns their number.
func (c *csvReader) plain(quoted bool, limit int64) int {
	b, _ := c.r.Peek(c.r.Buffered()) // buffered, cannot fail
	b = b[:min(int64(len(b)), max(0, limit))]
	n := 0
	for n < len(b) && b[n] != '"' && b[n] != '\n' && b[n] != '\r' && (quoted || b[n] != ',') {
		n++
	}
	c.text = append(c.text, b[:n]...)
	_, _ = c.r.Discard(n)
	return n
}

// endsLine reports whether b ends a line: LF, or CR not followed by LF.
func (c *csvReader) endsLine(b byte) bool {
	if b != '\r' {
		return b == '\n'
	}
	after, err := c.r.Peek(1)
	return err != nil || after[0] != '\n'
}

// next counts a line if one ended.
func (c *csvReader) next(ended bool, column *int) {
	if ended {
		c.line++
		*column = 0
	}
}

func (c *csvReader) values() []string {
	c.ends = append(c.ends, len(c.text))
	text, from := string(c.text), 0
	c.row = c.row[:0]
	for _, end := range c.ends {
		c.row = append(c.row, text[from:end])
		from = end
	}
	return c.row
}

func (c *csvReader) loneQuote(column int) error {
	return fault.Try(fmt.Errorf("data: %s:%d: a lone quote at line %d, column %d", c.name, c.start, c.line, column), "quote the field, and double the quotes inside it")
}

func (c *csvReader) tooLong(quoted bool, line int64, column int) error {
	where := fmt.Sprintf("%s:%d", c.name, c.start)
	if quoted {
		where += fmt.Sprintf(": the quote at line %d, column %d is not closed", line, column)
	}
	return tooLarge(where, "the row", c.limit, false, c.limit)
}
