package monitor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"trireme/internal/durable"
)

// JSONL writes one JSON record per line: metrics.jsonl, a stable format for other programs. Each line
// is a single write, so a killed run leaves no more than one torn line, which the next OpenJSONL drops.
type JSONL struct {
	w    io.Writer
	f    *os.File // nil if the caller owns the writer
	buf  []byte
	torn bool // the last write was partial
}

var _ Sink = (*JSONL)(nil)

// NewJSONL writes to w, which the caller closes.
func NewJSONL(w io.Writer) *JSONL { return &JSONL{w: w} }

// OpenJSONL opens the file to append records after step resumed. It first removes the lines of later
// steps, atomically. If resumed is 0, it renames an existing file to metrics.1.jsonl and so on.
func OpenJSONL(path string, resumed int64) (*JSONL, error) {
	var err error
	// Rename anything but a regular file: a pipe would block the run.
	if st, missing := os.Stat(path); missing == nil && resumed > 0 && st.Mode().IsRegular() {
		err = truncate(path, resumed)
	} else {
		err = rotate(path)
	}
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	return &JSONL{w: f, f: f}, nil
}

// Record writes one line.
func (j *JSONL) Record(r Record) error { return j.write(r.AppendJSON(j.start())) }

// Evaluate writes one line.
func (j *JSONL) Evaluate(e Evaluation) error { return j.write(e.AppendJSON(j.start())) }

// Note does nothing.
func (j *JSONL) Note(string) error { return nil }

func (j *JSONL) start() []byte {
	if j.torn { // end the torn line
		return append(j.buf[:0], '\n')
	}
	return j.buf[:0]
}

func (j *JSONL) write(line []byte) error {
	j.buf = append(line, '\n')
	n, err := j.w.Write(j.buf)
	j.torn = err != nil && (j.torn || n > 0)
	if err != nil {
		return fmt.Errorf("monitor: metrics: %w", err)
	}
	return nil
}

// Close syncs the file to disk.
func (j *JSONL) Close() error {
	if j.f == nil {
		return nil
	}
	err := errors.Join(j.f.Sync(), j.f.Close())
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	return nil
}

// truncate removes the lines of steps after last, and invalid lines.
func truncate(path string, last int64) error {
	old, err := os.Open(path)
	if err != nil {
		return err
	}
	defer old.Close()
	return durable.Replace(path, 0o644, func(tmp *os.File) error {
		w, r := bufio.NewWriter(tmp), bufio.NewReader(old)
		for {
			line, err := r.ReadBytes('\n')
			if err == io.EOF {
				return w.Flush() // drop a torn line
			}
			if err != nil {
				return err
			}
			rec, eval, err := Parse(bytes.TrimSpace(line))
			if err != nil || rec != nil && rec.Step > last || eval != nil && eval.Step > last {
				continue
			}
			w.Write(line)
		}
	})
}

func rotate(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && st.Mode().IsRegular() && st.Size() == 0:
		return nil
	case err != nil:
		return err
	}
	ext := filepath.Ext(path)
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), n, ext)
		_, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return os.Rename(path, name)
		case err != nil:
			return err
		}
	}
}
