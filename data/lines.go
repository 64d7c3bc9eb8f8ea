package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine bounds a line of a JSON lines file.
const maxLine = 256 << 20

// eachLine calls f with every line of a file that is not blank, without its line feed, and
// its number from 1. Lines end at LF only. The line is overwritten by the next. A NUL byte
// is an error that names its offset: no text and no JSON holds one.
func eachLine(path string, f func(line []byte, number int) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, 1<<20)
	var long []byte
	offset := int64(0)
	for number := 1; ; number++ {
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
			return fmt.Errorf("data: %s:%d: the line is longer than %d MiB", path, number, maxLine>>20)
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("data: %s:%d: %w", path, number, err)
		}
		if i := bytes.IndexByte(line, 0); i >= 0 {
			return binaryError(path, offset+int64(i))
		}
		offset += int64(len(line))
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			if err := f(trimmed, number); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

func binaryError(path string, offset int64) error {
	return fmt.Errorf("data: %s: a NUL byte at offset %d: this is not text", path, offset)
}
