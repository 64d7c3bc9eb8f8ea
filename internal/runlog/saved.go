package runlog

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"time"
)

// freeze ends the tail: later rows are in another chunk.
func (r *records) freeze() {
	t := r.tail
	r.tail, r.saved = nil, 0
	if t.n == 0 {
		return
	}
	var c chunk = t // stays in memory if no directory can be written
	if t.n < indexRows && r.seq == 0 {
		// too few rows for a file
	} else if err := r.save(t); err == nil {
		if s := r.loadFile(r.seq, t.end); s != nil {
			c = s
		}
	}
	r.push(c)
	r.seq++
}

// thaw makes the tail: of the last chunk if that is of this part and not full, else a new one.
func (r *records) thaw() error {
	if n := len(r.chunks); n > 0 && r.seq > 0 {
		c := r.chunks[n-1]
		part, begin, end := c.span()
		if part == r.at.part && end == r.at.at && c.rows() < chunkRows {
			t := newTable(r.names, part, begin)
			t.end, t.n = end, c.rows()
			for _, name := range c.metrics() {
				v, err := c.values(name)
				if err != nil {
					return r.damaged(c, err)
				}
				if id := r.names.id([]byte(name)); id >= 0 {
					t.setAll(id, v)
				}
			}
			if v, _ := t.values(fixed[colTotal]); v != nil {
				t.tokens = v[len(v)-1]
			}
			r.chunks, r.totals = r.chunks[:n-1], r.totals[:n-1]
			r.seq--
			r.tail, r.saved = t, t.n
			return c.close()
		}
	}
	r.tail, r.saved = newTable(r.names, r.at.part, r.at.at), 0
	return nil
}

// errReread is the error of a chunk whose file is damaged: its rows are in the records.
var errReread = errors.New("the index is damaged")

// damaged forgets a chunk whose file is damaged.
func (r *records) damaged(c chunk, err error) error {
	if s, ok := c.(*stored); ok && errors.Is(err, errDamaged) {
		r.broken[s.f.Name()] = true
		return errReread
	}
	return err
}

func fileName(part, seq int) string { return fmt.Sprintf("%06d-%06d.idx", part, seq) }

// save writes a table to the index.
func (r *records) save(t *table) error {
	digest, err := digest(r.f, t.begin, t.end)
	if err != nil {
		return err
	}
	for i, folder := range r.folders {
		if err = os.MkdirAll(folder, 0o755); err != nil {
			continue
		}
		path := filepath.Join(folder, fileName(t.part, r.seq))
		if err = t.write(path, digest); err == nil {
			delete(r.broken, path)
			r.folders[0], r.folders[i] = r.folders[i], r.folders[0]
			sweep(folder)
			return nil
		}
	}
	return err
}

// sweep removes files that writers left when they were killed.
func sweep(folder string) {
	left, _ := filepath.Glob(filepath.Join(folder, ".*.tmp*"))
	for _, path := range left {
		if st, err := os.Lstat(path); err == nil && time.Since(st.ModTime()) > time.Hour {
			os.Remove(path) // another reader may be faster
		}
	}
}

// loadFile opens a file of the index, whose rows must begin at the current end of the chunks.
func (r *records) loadFile(seq int, size int64) *stored {
	begin := int64(0)
	if seq > 0 && len(r.chunks) > 0 {
		_, _, begin = r.chunks[len(r.chunks)-1].span()
	}
	highest := int64(-1)
	if n := len(r.chunks); n > 0 {
		_, highest = r.chunks[n-1].steps()
	}
	for _, folder := range r.folders {
		path := filepath.Join(folder, fileName(r.at.part, seq))
		if r.broken[path] {
			continue
		}
		c, err := openStored(path)
		if err != nil {
			continue // it is written again
		}
		d, err := digest(r.f, c.begin, min(c.end, size))
		if err == nil && c.part == r.at.part && c.begin == begin && c.end <= size && c.first >= highest && c.digest == d {
			return c
		}
		c.f.Close()
	}
	return nil
}

// digest summarizes bytes of the records by samples of them: each line has its time, so files that differ in
// any line do so at their ends.
func digest(f io.ReaderAt, begin, end int64) (uint64, error) {
	const spots, length = 8, 512
	h := fnv.New64a()
	b := make([]byte, length)
	for i := range int64(spots) {
		at := begin + (end-begin-length)*i/(spots-1)
		n := int64(length)
		if at < begin {
			at, n = begin, min(n, end-begin)
		}
		if _, err := f.ReadAt(b[:n], at); err != nil {
			return 0, err
		}
		h.Write(b[:n])
	}
	return h.Sum64(), nil
}
