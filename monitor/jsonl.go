package monitor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// JSONL writes one JSON record per line: metrics.jsonl, a stable format for other programs. Each line
// is a single write, so a killed run leaves no more than one torn line, which the next OpenJSONL drops.
type JSONL struct {
	w    io.Writer
	f    *os.File // nil if the caller owns the writer
	buf  []byte
	torn bool // the last write was partial

	size, limit int64  // of the file; limit 0: it is never full
	full        func() // called after a file is full
	stuck       bool   // a rotation failed: the file grows beyond the limit
	closing     sync.WaitGroup
	late        atomic.Pointer[error] // of closing a full file
}

var _ Sink = (*JSONL)(nil)

// NewJSONL writes to w, which the caller closes.
func NewJSONL(w io.Writer) *JSONL { return &JSONL{w: w} }

// OpenJSONL opens the file to append records after step resumed. It first removes the lines of later
// steps from all parts, atomically. If resumed is 0, it renames existing records to metrics.1.jsonl and so on.
func OpenJSONL(path string, resumed int64) (*JSONL, error) {
	var err error
	// Rename anything but a regular file: a pipe would block the run.
	if st, missing := os.Stat(path); resumed > 0 && (missing != nil || st.Mode().IsRegular()) {
		err = truncate(path, resumed)
	} else {
		err = moveAside(path)
	}
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	j := &JSONL{}
	if err := j.open(path); err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	return j, nil
}

// open opens the newest file to append to it.
func (j *JSONL) open(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.w, j.f, j.size = f, f, st.Size()
	return nil
}

// Rotate limits the size of a file in bytes. A record that would exceed it begins a new file: the full one is
// renamed to metrics-000001.jsonl and so on. full, if not nil, is called then and must not wait. The caller opened
// j with OpenJSONL.
func (j *JSONL) Rotate(limit int64, full func()) { j.limit, j.full = limit, full }

// rotate renames the full file and opens a new one. If it fails, records go to the full file. The full file is synced in the
// background.
func (j *JSONL) rotate() error {
	path := j.f.Name()
	parts, err := Parts(path)
	if err != nil {
		return err
	}
	old := j.f
	to := partPath(path, parts[len(parts)-1].Number)
	if err := os.Rename(path, to); err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	if err := j.open(path); err != nil {
		return fmt.Errorf("monitor: %w", errors.Join(err, os.Rename(to, path)))
	}
	j.closing.Go(func() {
		if err := errors.Join(old.Sync(), old.Close()); err != nil {
			j.late.Store(&err)
		}
	})
	if j.full != nil {
		j.full()
	}
	return nil
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
	var stuck error
	if j.limit > 0 && !j.stuck && !j.torn && j.size > 0 && j.size+int64(len(j.buf)) > j.limit {
		stuck = j.rotate()
		j.stuck = stuck != nil
	}
	n, err := j.w.Write(j.buf)
	j.size += int64(n)
	j.torn = err != nil && (j.torn || n > 0)
	if err != nil {
		return fmt.Errorf("monitor: metrics: %w", err)
	}
	return stuck
}

// Close syncs the file to disk.
func (j *JSONL) Close() error {
	if j.f == nil {
		return nil
	}
	j.closing.Wait()
	err := errors.Join(j.f.Sync(), j.f.Close())
	if late := j.late.Load(); late != nil {
		err = errors.Join(*late, err)
	}
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	return nil
}
