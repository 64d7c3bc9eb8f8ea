package data

import (
	"bufio"
	"fmt"
	"io"

	"trireme/fault"
)

// csvReader reads comma-separated values as Python's module csv does: a line ends with LF, CRLF
// or CR, and within quotes each of them is part of the value as it stands. Blank lines are
// passed over. A quote that neither opens nor closes a value is an error here.
type csvReader struct {
	r     *bufio.Reader
	name  string // of the file
	limit int64  // bytes of a row
	line  int64  // of the byte that was read last, from 1
	begun int64  // the line in which the last row begins

	text []byte // the values of a row, one after the other
	ends []int
	row  []string
}

func newCSVReader(in io.Reader, name string, limit int64) *csvReader {
	return &csvReader{r: bufio.NewReaderSize(in, 1<<18), name: name, limit: limit, line: 1}
}

// Where in a row a reader is.
const (
	csvRow    = iota // before its first byte
	csvValue         // before the first byte of a value
	csvPlain         // in a value without quotes
	csvQuoted        // within quotes
	csvQuote         // behind a quote within quotes: the last, or the first of two
)

// read gives the values of the next row, which the next call overwrites, or io.EOF.
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
			return nil, fault.Try(fmt.Errorf("data: %s:%d: the quote at line %d, column %d is not closed", c.name, c.begun, openLine, openColumn), "close it, or put each quote in a field twice")
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
			at, c.begun = csvValue, c.line
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
		case b == '\r' && !end: // its LF comes
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

// plain reads what is in memory of a value up to a byte that may end it or a line, at most room bytes,
// and returns the number of bytes.
func (c *csvReader) plain(quoted bool, room int64) int {
	b, _ := c.r.Peek(c.r.Buffered()) // which is there
	b = b[:min(int64(len(b)), max(0, room))]
	n := 0
	for n < len(b) && b[n] != '"' && b[n] != '\n' && b[n] != '\r' && (quoted || b[n] != ',') {
		n++
	}
	c.text = append(c.text, b[:n]...)
	_, _ = c.r.Discard(n)
	return n
}

// endsLine says whether a byte is the last of a line: LF, or CR without one after it.
func (c *csvReader) endsLine(b byte) bool {
	if b != '\r' {
		return b == '\n'
	}
	after, err := c.r.Peek(1)
	return err != nil || after[0] != '\n'
}

// next begins another line where one has ended.
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
	return fault.Try(fmt.Errorf("data: %s:%d: a lone quote at line %d, column %d", c.name, c.begun, c.line, column), "put the field in quotes, and each quote in it twice")
}

func (c *csvReader) tooLong(quoted bool, line int64, column int) error {
	where := fmt.Sprintf("%s:%d", c.name, c.begun)
	if quoted {
		where += fmt.Sprintf(": the quote at line %d, column %d is not closed", line, column)
	}
	return tooLarge(where, "the row", c.limit, false, c.limit)
}
