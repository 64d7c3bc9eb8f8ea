package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of a JSON lines file, and an element of a JSON list.
const maxLine = 256 << 20

// eachLine calls f with every line of in that is not blank, without its end, LF or CRLF, and
// its number from 1. The line is overwritten by the next. A NUL byte is an
// error: no text and no JSON holds one. name is the file's, for messages.
func eachLine(in io.Reader, name string, f func(line []byte, number int64) error) error {
	r := bufio.NewReaderSize(in, 1<<20)
	var long []byte
	for number := int64(1); ; number++ {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], line...)
			for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxLine {
				line, err = r.ReadSlice('\n')
				long = append(long, line...)
			}
			line = long
		}
		if len(line) > maxLine {
			return fmt.Errorf("data: %s:%d: the line is longer than %d MiB. try: shorter lines", name, number, maxLine>>20)
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
	return fmt.Errorf("data: %s:%d: a NUL byte at column %d: this is not text. try: the file as text in UTF-8", name, line, column+1)
}

// limiter stops a reader that has given more than maxLine bytes since it was reset: a quote
// or a bracket that is never closed would fill the memory.
type limiter struct {
	io.Reader
	left int
}

var errLong = fmt.Errorf("longer than %d MiB", maxLine>>20)

func (l *limiter) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLong
	}
	n, err := l.Reader.Read(b)
	l.left -= n
	return n, err
}

func (l *limiter) reset() { l.left = maxLine }
