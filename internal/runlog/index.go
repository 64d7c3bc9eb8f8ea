package runlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"trireme/internal/flock"
	"trireme/internal/rundir"
	"trireme/monitor"
)

const (
	readSize = 1 << 20
	maxLine  = 16 << 20 // longer lines are skipped
	// indexRows is the number of rows that are read anew rather than written to the index again.
	indexRows = 2048
)

// records are the rows of a run: chunks, then the table that grows.
type records struct {
	dir    string
	names  *names
	scan   scanner
	chunks []chunk
	tail   *table // nil: none begun
	saved  int    // rows of the tail that are in the index

	f       *os.File // the part that is read; nil: none yet
	at      position // of the next line
	seq     int      // of the tail within its part
	highest int64    // step; -1: none
	skipped int      // lines that are no records
	resets  int
	broken  map[string]bool // files of the index that do not fit
	totals  []float64       // tokens before each chunk
	folders []string        // directories of the index, the first that can be written first
}

func newRecords(dir string) *records {
	n := newNames()
	r := &records{dir: dir, names: n, scan: scanner{names: n, evals: map[int]int{}}, highest: -1, broken: map[string]bool{}}
	r.folders = []string{filepath.Join(dir, rundir.Index)}
	if cache, err := os.UserCacheDir(); err == nil {
		if abs, err := filepath.Abs(dir); err == nil {
			name := sha256.Sum256([]byte(abs))
			r.folders = append(r.folders, filepath.Join(cache, "trireme", "runs", hex.EncodeToString(name[:12])))
		}
	}
	return r
}

func (r *records) close() error {
	var errs []error
	for _, c := range r.chunks {
		errs = append(errs, c.close())
	}
	if r.f != nil {
		errs = append(errs, r.f.Close())
	}
	r.chunks, r.tail, r.f, r.saved, r.at, r.seq, r.highest, r.totals, r.skipped = nil, nil, nil, 0, position{}, 0, -1, nil, 0
	return errors.Join(errs...)
}

// extend reads what the files have beyond the last call. If the run was resumed and its records are
// shorter or others, it begins again and counts r.resets.
func (r *records) extend(ctx context.Context, progress func(done, total int64)) error {
	for {
		again, err := r.extendOnce(ctx, progress)
		if !again && !errors.Is(err, errReread) {
			return err
		}
		if err := r.close(); err != nil {
			return err
		}
		r.resets++
	}
}

func (r *records) extendOnce(ctx context.Context, progress func(done, total int64)) (replaced bool, err error) {
	parts, err := monitor.Parts(filepath.Join(r.dir, rundir.Metrics))
	if err != nil {
		return false, err
	}
	if len(parts) == 0 || parts[len(parts)-1].Number < r.at.part {
		return r.at.part > 0, nil
	}
	total, done := int64(0), int64(0)
	for _, p := range parts {
		if st, err := os.Stat(p.Path); err == nil {
			total += st.Size()
			if p.Number < r.at.part {
				done += st.Size()
			}
		}
	}
	read := func(n int64) {
		if progress != nil {
			progress(done+n, total)
		}
	}
	for i, p := range parts {
		if p.Number < r.at.part {
			continue
		}
		f, err := flock.Open(p.Path, os.O_RDONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil // renamed meanwhile: the next call reads it
		}
		if err != nil {
			return false, err
		}
		st, err := f.Stat()
		if err != nil {
			return false, errors.Join(err, f.Close())
		}
		if p.Number == r.at.part && r.f != nil {
			before, err := r.f.Stat()
			if err != nil || !os.SameFile(before, st) || st.Size() < r.at.at {
				return true, errors.Join(err, f.Close())
			}
			if err := f.Close(); err != nil {
				return false, err
			}
		} else {
			if r.f != nil {
				if err := r.f.Close(); err != nil {
					return false, err
				}
			}
			r.f, r.at, r.seq = f, position{p.Number, 0}, 0
		}
		if err := r.extendPart(ctx, st.Size(), i < len(parts)-1, read); err != nil {
			return false, err
		}
		done += st.Size()
		read(0)
	}
	return false, nil
}

// extendPart reads the open part up to size. full says that the part has no lines after these.
func (r *records) extendPart(ctx context.Context, size int64, full bool, progress func(int64)) error {
	for r.at.at < size {
		if r.tail == nil {
			if c := r.loadFile(r.seq, size); c != nil {
				r.push(c)
				r.at.at = c.end
				r.highest = c.last
				r.seq++
				continue
			}
			if err := r.thaw(); err != nil {
				return err
			}
		}
		before := r.at.at
		if err := r.parse(ctx, size, full, progress); err != nil {
			return err
		}
		if r.tail.n == chunkRows {
			r.freeze()
		} else if r.at.at == before { // a torn line, for now
			break
		}
	}
	if r.tail != nil && (full || r.tail.n-r.saved >= indexRows) {
		if full {
			r.freeze()
		} else if r.tail.n > 0 && r.save(r.tail) == nil {
			r.saved = r.tail.n
		}
	}
	return nil
}

// push appends a chunk.
func (r *records) push(c chunk) {
	r.totals = append(r.totals, r.total(len(r.chunks)))
	r.chunks = append(r.chunks, c)
}

// total returns the tokens before chunk i, up to len(r.chunks).
func (r *records) total(i int) float64 {
	if i == 0 {
		return 0
	}
	if b := r.chunks[i-1].top(fixed[colTotal]); b.count > 0 {
		return r.totals[i-1] + b.last
	}
	return r.totals[i-1]
}

// all returns the chunks, with the tail.
func (r *records) all() []chunk {
	if r.tail == nil || r.tail.n == 0 {
		return r.chunks
	}
	return append(r.chunks[:len(r.chunks):len(r.chunks)], r.tail)
}

// parse appends rows to the tail, until it is full or the part ends.
func (r *records) parse(ctx context.Context, size int64, full bool, progress func(int64)) error {
	buf, have, long := make([]byte, min(readSize, max(4096, size-r.at.at+1))), 0, false
	for r.tail.n < chunkRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.f.ReadAt(buf[have:], r.at.at+int64(have))
		have += n
		used := 0
		for r.tail.n < chunkRows {
			k := bytes.IndexByte(buf[used:have], '\n')
			if k < 0 {
				break
			}
			if !long {
				r.row(buf[used:used+k], r.at.at+int64(used))
			}
			long = false
			used += k + 1
		}
		r.at.at += int64(used)
		r.tail.end = r.at.at
		have = copy(buf, buf[used:have])
		progress(r.at.at)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err != nil || n == 0 && used == 0:
			if full && r.tail.n < chunkRows { // a torn line at the end of a part
				r.at.at = size
				r.tail.end = size
			}
			return nil
		case have == len(buf) && have < maxLine:
			buf = append(buf, make([]byte, len(buf))...)
		case have == len(buf):
			r.at.at += int64(have)
			have, long = 0, true
		}
	}
	return nil
}

// row appends the row of a line, unless it is no record.
func (r *records) row(line []byte, offset int64) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	step, err := r.scan.scan(line)
	if err != nil || step < r.highest {
		r.skipped++
		return
	}
	r.highest = step
	r.tail.add(step, offset, r.scan.cells)
}
