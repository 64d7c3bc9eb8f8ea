package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"trireme/fault"
)

// maxCounted limits how much of a too large row is read to report its size; a compressed one may be
// endless.
const maxCounted = 128 << 20

// eachLine calls f with every non-blank line, without LF or CRLF, and its number from 1. The line
// is valid until the next. A NUL byte is an error, since neither text nor JSON contains one, and so
// is a line of more than limit bytes. name is the file's, for messages.
func eachLine(in io.Reader, name string, limit int64, f func(line []byte, number int64) error) error {
	r := bufio.NewReaderSize(in, 1<<20)
	var long []byte
	for number := int64(1); ; number++ {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], line...)
			for errors.Is(err, bufio.ErrBufferFull) && int64(len(long)) <= limit {
				line, err = r.ReadSlice('\n')
				long = append(long, line...)
			}
			line = long
		}
		if size := int64(len(line)); size > limit {
			for ; errors.Is(err, bufio.ErrBufferFull) && size < maxCounted; size += int64(len(line)) {
				line, err = r.ReadSlice('\n')
			}
			return tooLarge(fmt.Sprintf("%s:%d", name, number), "the line", size, err == nil || err == io.EOF, limit)
		}
		if err != nil && err != io.EOF {
			return err
		}
		if i := bytes.IndexByte(line, 0); i >= 0 {
			return nulError(name, number, i)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
			if err := f(line, number); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

func nulError(name string, line int64, column int) error {
	return fault.Try(fmt.Errorf("data: %s:%d: NUL byte at column %d: not a text file", name, line, column+1), "convert it to UTF-8")
}

// tooLarge is the error for a row of size bytes, or more unless whole.
func tooLarge(where, what string, size int64, whole bool, limit int64) error {
	more := ""
	if !whole {
		more = "over "
	}
	return fault.Try(fmt.Errorf("data: %s: %s has %s%s bytes, more than data.max_row_bytes %s", where, what, more, thousands(int(size)), thousands(int(limit))), "shorter rows, or %s", fault.Set("data.max_row_bytes", "N"))
}

// limiter stops a reader after limit bytes since reset, so that an unclosed quote or bracket does
// not fill the memory.
type limiter struct {
	io.Reader
	limit, left int64
}

var errLong = errors.New("the row exceeds data.max_row_bytes")

func (l *limiter) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLong
	}
	n, err := l.Reader.Read(b)
	l.left -= int64(n)
	return n, err
}

func (l *limiter) reset() { l.left = l.limit }
