package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"path/filepath"
	"slices"
	"sync"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// written lists the files and pieces of one rank.
type written struct {
	Files  []manifestFile `json:"files"`
	Pieces []writtenPiece `json:"pieces"`
}

type writtenPiece struct {
	Tensor int   `json:"tensor"` // index into the plan
	Piece  piece `json:"piece"`  // File is relative to this rank's first file; -1 is the shared file
}

// writer is one rank's part of writing a checkpoint. run writes the chunks of its file in order, in any
// goroutine. Beside it, hold copies chunks from the end on, so that the items may change before all are
// written.
type writer struct {
	fs     fileStore
	dir    string
	rank   int
	memory memory
	chunk  int // bytes per CRC
	items  []Item
	plan   []planned

	out    written
	name   string // of the file; empty for none
	size   int64
	shared bool   // other ranks write the file too
	header []byte // nil if another rank writes it
	chunks []chunk
	buf    []byte // for a chunk of a tensor outside host memory

	mu    sync.Mutex
	moved sync.Cond
	front int  // the next chunk to write
	back  int  // chunks from here on are copied
	live  bool // the chunk before front is being written, and is not copied
	ended bool // run has ended
}

// chunk is consecutive elements [lo, hi) of a tensor with their offset in the file and their checksum.
type chunk struct {
	what   *planned
	data   *tensor.Tensor
	lo, hi int
	at     int64
	crc    *uint32
	copied []byte // nil if not copied
}

func (c *chunk) bytes() int { return (c.hi - c.lo) * c.data.DType().Size() }

// lay lays out the file of this rank.
func (w *writer) lay(kind string) error {
	w.moved.L = &w.mu
	layout := w.sharded
	if kind == Full {
		layout = w.full
	}
	err := layout()
	w.back = len(w.chunks)
	return err
}

// rankFile is the file name of a rank in a sharded checkpoint.
func rankFile(rank int) string { return fmt.Sprintf("rank-%05d.safetensors", rank) }

// sharded gives this rank a file with its parts, each as a tensor named after its box.
func (w *writer) sharded() error {
	var entries []safetensors.Entry
	for i, p := range w.parts() {
		t := w.plan[i]
		entries = append(entries, safetensors.Entry{Name: key(t.Kind, t.Name) + p.box.String(), DType: t.DType, Shape: p.box.Sizes})
	}
	if len(entries) == 0 {
		return nil
	}
	l, err := safetensors.NewLayout(entries, nil)
	if err != nil {
		return err
	}
	w.name, w.size, w.header = rankFile(w.rank), l.Size(), l.Header()
	w.out.Files = []manifestFile{describeFile(w.name, l)}
	for i, p := range w.parts() {
		w.add(i, p, 0, l.Offset(len(w.out.Pieces)))
	}
	return nil
}

// full gives this rank its parts in the one file of all ranks.
func (w *writer) full() error {
	entries := make([]safetensors.Entry, len(w.plan))
	for i, t := range w.plan {
		entries[i] = safetensors.Entry{Name: key(t.Kind, t.Name), DType: t.DType, Shape: t.Shape}
	}
	l, err := safetensors.NewLayout(entries, nil)
	if err != nil {
		return err
	}
	w.name, w.size = fullName, l.Size()
	if w.rank == 0 {
		w.header, w.out.Files = l.Header(), []manifestFile{describeFile(w.name, l)}
	}
	for i, p := range w.parts() {
		for _, r := range p.runs(w.plan[i].Shape) {
			w.add(i, r.part, -1, l.Offset(i)+int64(r.to)*int64(w.plan[i].DType.Size()))
		}
	}
	slices.SortFunc(w.chunks, func(a, b chunk) int { return cmp.Compare(a.at, b.at) })
	return nil
}

// add adds a part of tensor i of the plan at an offset of a file.
func (w *writer) add(i int, p part, file int, offset int64) {
	t := &w.plan[i]
	data, size, n := w.items[p.item].Data, t.DType.Size(), p.box.Elems()
	per := w.chunk / size
	crcs := make([]uint32, (n-1)/per+1)
	for lo := 0; lo < n; lo += per {
		w.chunks = append(w.chunks, chunk{what: t, data: data, lo: p.at + lo, hi: p.at + min(n, lo+per), at: offset + int64(lo*size), crc: &crcs[lo/per]})
	}
	w.out.Pieces = append(w.out.Pieces, writtenPiece{Tensor: i, Piece: piece{File: file, Offset: offset, Box: p.box, CRC: crcs}})
}

// parts lists the parts of this rank, in plan order.
func (w *writer) parts() iter.Seq2[int, part] {
	return func(yield func(int, part) bool) {
		for i, t := range w.plan {
			for _, p := range t.parts {
				if p.rank == w.rank && !yield(i, p) {
					return
				}
			}
		}
	}
}

func describeFile(name string, l *safetensors.Layout) manifestFile {
	h := l.Header()
	return manifestFile{Name: name, Size: l.Size(), HeaderBytes: int64(len(h)), HeaderCRC: crc32.Checksum(h, castagnoli)}
}

func writeAt(f file, b []byte, at int64, what string) error {
	if _, err := f.WriteAt(b, at); err != nil {
		return fmt.Errorf("checkpoint: write %s: %w", what, err)
	}
	return nil
}

const sameDirectory = "all ranks must write to the same directory"

// writeFile writes a file in full. If it is shared, other ranks write parts of it too.
func writeFile(fs fileStore, path string, size int64, shared bool, fill func(file) error) (err error) {
	f, err := fs.Create(path)
	if errors.Is(err, errNotExist) {
		return fmt.Errorf("checkpoint: %w: the directory created by rank 0 is missing; %s", err, sameDirectory)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("checkpoint: close %s: %w", path, e)
		}
	}()
	// Ranks that share a file agree on its size, so none truncates another's bytes.
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("checkpoint: resize %s to %d bytes: %w", path, size, err)
	}
	if a, ok := f.(alone); ok && !shared {
		a.Alone()
	}
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("checkpoint: sync %s: %w", path, err)
	}
	return nil
}

// writeSmall writes a file at once.
func writeSmall(fs fileStore, path string, b []byte) error {
	return writeFile(fs, path, int64(len(b)), false, func(f file) error { return writeAt(f, b, 0, filepath.Base(path)) })
}

// run writes this rank's file. Each chunk is summed just before it is written, while it is in cache.
func (w *writer) run(ctx context.Context) error {
	defer w.end()
	if w.name == "" {
		return nil
	}
	return writeFile(w.fs, join(w.dir, w.name), w.size, w.shared, func(f file) error {
		if w.header != nil {
			if err := writeAt(f, w.header, 0, "a header"); err != nil {
				return err
			}
		}
		for c := w.next(); c != nil; c = w.next() {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("checkpoint: write %s: %w", key(c.what.Kind, c.what.Name), context.Cause(ctx))
			}
			b, err := w.contents(c)
			if err != nil {
				return fmt.Errorf("checkpoint: read %s: %w", key(c.what.Kind, c.what.Name), err)
			}
			*c.crc = crc32.Checksum(b, castagnoli)
			if err := writeAt(f, b, c.at, key(c.what.Kind, c.what.Name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// contents returns the bytes of a chunk until the next call.
func (w *writer) contents(c *chunk) ([]byte, error) {
	if c.copied != nil {
		return c.copied, nil
	}
	if c.data.Buffer().Bytes == nil && w.buf == nil {
		w.buf = make([]byte, w.chunk)
	}
	return w.memory.bytes(c.data, c.lo, c.hi, w.buf)
}

// next ends the last chunk and returns the next one; nil after the last.
func (w *writer) next() *chunk {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = w.front < w.back
	w.moved.Broadcast()
	if w.front == len(w.chunks) {
		return nil
	}
	w.front++
	return &w.chunks[w.front-1]
}

// end ends run.
func (w *writer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended, w.live = true, false
	w.moved.Broadcast()
}

// hold copies chunks that are not yet written into buf, as far as it has space, the last ones first.
func (w *writer) hold(buf []byte) error {
	for more := true; more; {
		var err error
		if more, err = w.holdOne(&buf); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) holdOne(buf *[]byte) (more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.back <= w.front { // front may be among the copied ones already
		return false, nil
	}
	c := &w.chunks[w.back-1]
	n := c.bytes()
	if n > len(*buf) {
		return false, nil
	}
	to := (*buf)[:n:n]
	b, err := w.memory.bytes(c.data, c.lo, c.hi, to)
	if err != nil {
		return false, fmt.Errorf("checkpoint: read %s: %w", key(c.what.Kind, c.what.Name), err)
	}
	if c.data.Buffer().Bytes != nil {
		copy(to, b)
	}
	c.copied, *buf = to, (*buf)[n:]
	w.back--
	return true, nil
}

// settle waits until run reads no item any more.
func (w *writer) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.ended && (w.front < w.back || w.live) {
		w.moved.Wait()
	}
}
