package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"syscall"

	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/internal/concurrent"
	"trireme/tensor"
)

// Checkpoint is a committed checkpoint open for reading. Its methods are safe for concurrent use.
type Checkpoint struct {
	dir   string
	fs    fileStore
	m     *manifest
	index map[string]int // key -> tensor

	mu    sync.Mutex
	files []file // opened on first use
}

// Open verifies the checkpoint in dir except the tensors' bytes, which Load verifies. The error
// wraps ErrCorrupt if the directory exists but is not a valid checkpoint.
func Open(dir string) (*Checkpoint, error) {
	fs, err := storageAt(dir)
	if err != nil {
		return nil, err
	}
	return open(fs, dir)
}

func open(fs fileStore, dir string) (*Checkpoint, error) {
	if _, err := fs.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	m, err := verify(fs, dir)
	if errors.Is(err, errNewer) || unavailable(err) {
		return nil, fmt.Errorf("checkpoint: %s: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w: %w", dir, ErrCorrupt, err)
	}
	c := &Checkpoint{dir: dir, fs: fs, m: m, index: make(map[string]int, len(m.Tensors)), files: make([]file, len(m.Files))}
	for i, t := range m.Tensors {
		c.index[t.key()] = i
	}
	return c, nil
}

// Meta returns the metadata that was saved with the tensors.
func (c *Checkpoint) Meta() Meta {
	return Meta{Run: c.m.Run, Step: c.m.Step, Epoch: c.m.Epoch, WorldSize: c.m.WorldSize, Strategy: c.m.Strategy, Config: c.m.Config, State: c.m.State}
}

// Tensor describes one tensor of a checkpoint.
type Tensor struct {
	Kind, Name string
	DType      tensor.DType
	Shape      tensor.Shape
}

// Tensors lists the tensors.
func (c *Checkpoint) Tensors() []Tensor {
	ts := make([]Tensor, len(c.m.Tensors))
	for i, t := range c.m.Tensors {
		dt, _ := t.DType.DType()
		ts[i] = Tensor{t.Kind, t.Name, dt, t.Shape}
	}
	return ts
}

// Close closes the files.
func (c *Checkpoint) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for i, f := range c.files {
		if f != nil {
			errs = append(errs, f.Close())
			c.files[i] = nil
		}
	}
	return errors.Join(errs...)
}

// LoadOptions configures a load.
type LoadOptions struct {
	// Convert allows conversion between F32, BF16 and F16. Otherwise dtypes must be equal.
	Convert bool
	// Device fills tensors that are not in host memory; nil if there are none.
	Device tensor.Memory
}

// Load fills the items' Data, with all processors if it is in host memory. It reads the byte ranges they need,
// widened to whole chunks, and checks each chunk's CRC. It returns an error before reading if a tensor is missing or has another
// shape or dtype. After an error the items' contents are undefined.
func (c *Checkpoint) Load(ctx context.Context, items []Item, o LoadOptions) error {
	for _, it := range items {
		if err := c.fits(it, o); err != nil {
			return err
		}
	}
	parts, workers := divide(items, loadParts*c.m.ChunkBytes/8), concurrent.Processors()
	if slices.ContainsFunc(items, func(it Item) bool { return it.Box.Elems() > 0 && it.Data.Buffer().Bytes == nil }) {
		workers = 1
	}
	readers := make([]reader, max(1, min(workers, len(parts))))
	for i := range readers {
		readers[i] = reader{c: c, memory: memory{o.Device}}
	}
	err := concurrent.Each(workers, len(parts), func(worker, i int) error { return readers[worker].item(ctx, parts[i]) })
	if err == nil {
		readers[0].memory.sync()
	}
	return err
}

// loadParts is the number of chunks of a part of an item that has elements of 8 bytes. One goroutine loads a part.
// The parts of an item that was saved as one piece begin with a chunk.
const loadParts = 64

// divide cuts items in host memory into parts of up to size elements.
func divide(items []Item, size int) (parts []Item) {
	for _, it := range items {
		n := it.Box.Elems()
		if n <= size || it.Data.Buffer().Bytes == nil {
			parts = append(parts, it)
			continue
		}
		for at := 0; at < n; at += size {
			lo := at
			for _, box := range it.Box.Range(at, min(n, at+size)) {
				part := it
				part.Box, part.Data = box, it.Data.Flat(lo, lo+box.Elems())
				parts, lo = append(parts, part), lo+box.Elems()
			}
		}
	}
	return parts
}

func (c *Checkpoint) fits(it Item, o LoadOptions) error {
	if err := it.check(memory{o.Device}); err != nil {
		return err
	}
	i, ok := c.index[key(it.Kind, it.Name)]
	if !ok {
		return fault.Try(fmt.Errorf("checkpoint: %s has no %s of %s", c.dir, it.Kind, it.Name), "the configuration the run started with")
	}
	t := c.m.Tensors[i]
	if !t.Shape.Equal(it.Shape) {
		return fault.Try(fmt.Errorf("checkpoint: %s: %s of %s has shape %v, this run needs %v", c.dir, it.Kind, it.Name, t.Shape, it.Shape), "the model the run started with, or %s", fault.Set("resume", "none"))
	}
	dt, _ := t.DType.DType()
	if dt != it.DType && !(o.Convert && safetensors.Convertible(dt, it.DType)) {
		return fmt.Errorf("checkpoint: %s: %s of %s has dtype %v, this run needs %v", c.dir, it.Kind, it.Name, dt, it.DType)
	}
	return nil
}

// file returns data file i.
func (c *Checkpoint) file(i int) (file, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[i] == nil {
		f, err := c.fs.Open(join(c.dir, c.m.Files[i].Name))
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %w", unreadable(err))
		}
		c.files[i] = f
	}
	return c.files[i], nil
}

// reader is the state of one goroutine of a load.
type reader struct {
	c      *Checkpoint
	memory memory
	chunk  []byte
	has    struct { // the chunk in the buffer
		piece *piece
		k     int
		b     []byte
	}
	converted []byte
}

// item fills one item from the pieces that overlap its box.
func (r *reader) item(ctx context.Context, it Item) error {
	t := r.c.m.Tensors[r.c.index[key(it.Kind, it.Name)]]
	filled := 0
	for i := range t.Pieces {
		p := &t.Pieces[i]
		at := 0 // offset of the box in the piece, in elements
		for _, b := range p.boxes(t.Shape) {
			if both, ok := b.Intersect(it.Box); ok {
				for run := range both.Runs(b, it.Box) {
					if err := r.run(ctx, t, p, at+run.X, it, run.Y, run.N); err != nil {
						return err
					}
				}
				filled += both.Elems()
			}
			at += b.Elems()
		}
	}
	if filled < it.Box.Elems() { // in the memory of another host
		return fmt.Errorf("checkpoint: %s has %d of %d elements of %s", r.c.dir, filled, it.Box.Elems(), t.key())
	}
	return nil
}

// run copies n elements of a piece, starting at element at, to elements [to, to+n) of an item.
func (r *reader) run(ctx context.Context, t manifestTensor, p *piece, at int, it Item, to, n int) error {
	from, _ := t.DType.DType()
	size := from.Size()
	per := r.c.m.ChunkBytes / size
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("checkpoint: load %s: %w", t.key(), context.Cause(ctx))
		}
		k, in := at/per, at%per
		all := min(per, p.elems()-k*per) // elements in the chunk
		some := min(n, all-in)
		if dst := r.direct(it, from, to, to+some); dst != nil && some == all {
			if _, err := r.read(t, p, k, dst); err != nil {
				return err
			}
		} else {
			b, err := r.cached(t, p, k)
			if err != nil {
				return err
			}
			if err := r.store(it, from, to, to+some, b[in*size:(in+some)*size]); err != nil {
				return fmt.Errorf("checkpoint: load %s: %w", t.key(), err)
			}
		}
		at, to, n = at+some, to+some, n-some
	}
	return nil
}

// cached returns chunk k of a piece; the last one read is cached.
func (r *reader) cached(t manifestTensor, p *piece, k int) ([]byte, error) {
	if r.has.piece == p && r.has.k == k {
		return r.has.b, nil
	}
	r.has.piece = nil
	n := r.c.chunkSize(t, p, k)
	r.chunk = slices.Grow(r.chunk[:0], n)[:n]
	b, err := r.read(t, p, k, r.chunk)
	if err == nil {
		r.has.piece, r.has.k, r.has.b = p, k, b
	}
	return b, err
}

// direct returns the item's memory for elements [lo, hi) if bytes can be read into it, else nil.
func (r *reader) direct(it Item, from tensor.DType, lo, hi int) []byte {
	if it.Data.Buffer().Bytes == nil || from != it.DType {
		return nil
	}
	return r.own(it, lo, hi)
}

// own returns the item's host memory for elements [lo, hi).
func (r *reader) own(it Item, lo, hi int) []byte {
	size := it.DType.Size()
	return tensor.HostBytes(it.Data)[lo*size : hi*size]
}

// store writes elements [lo, hi), of dtype from, to the item.
func (r *reader) store(it Item, from tensor.DType, lo, hi int, b []byte) error {
	if it.Data.Buffer().Bytes != nil {
		safetensors.Convert(r.own(it, lo, hi), it.DType, b, from)
		return nil
	}
	if from != it.DType {
		if r.converted == nil {
			r.converted = make([]byte, 2*r.c.m.ChunkBytes) // 2-byte elements widened to 4 bytes
		}
		out := r.converted[:(hi-lo)*it.DType.Size()]
		safetensors.Convert(out, it.DType, b, from)
		b = out
	}
	return r.memory.put(it.Data.Flat(lo, hi), b)
}

// chunkSize is the size of chunk k of a piece in bytes.
func (c *Checkpoint) chunkSize(t manifestTensor, p *piece, k int) int {
	return min(c.m.ChunkBytes, p.elems()*t.DType.Size()-k*c.m.ChunkBytes)
}

// read reads chunk k of a piece into buf and checks its CRC.
func (r *reader) read(t manifestTensor, p *piece, k int, buf []byte) ([]byte, error) {
	f, err := r.c.file(p.File)
	if err != nil {
		return nil, err
	}
	b := buf[:r.c.chunkSize(t, p, k)]
	at := p.Offset + int64(k)*int64(r.c.m.ChunkBytes)
	if n, err := f.ReadAt(b, at); n < len(b) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("checkpoint: read %s from %s: %w", t.key(), r.path(p), unreadable(err))
	}
	if crc32.Checksum(b, castagnoli) != p.CRC[k] {
		return nil, fmt.Errorf("checkpoint: %s: %w: bytes [%d,%d) of %s do not match their checksum", r.path(p), ErrCorrupt, at, at+int64(len(b)), t.key())
	}
	return b, nil
}

// unreadable adds ErrCorrupt to the error of a file that was there when its checkpoint was opened, if its bytes are lost: it
// is short or was deleted, or the disk has a bad sector.
func unreadable(err error) error {
	for _, lost := range []error{io.ErrUnexpectedEOF, errNotExist, syscall.EIO, syscall.ESTALE} {
		if errors.Is(err, lost) {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	return err
}

func (r *reader) path(p *piece) string { return join(r.c.dir, r.c.m.Files[p.File].Name) }
