package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"sync"

	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/tensor"
)

// Checkpoint is a committed checkpoint that is open for reading. Its methods may be called
// from several goroutines at once.
type Checkpoint struct {
	dir   string
	fs    fileSystem
	m     *manifest
	index map[string]int // key -> tensor

	mu    sync.Mutex
	files []file // opened when first read
}

// Open verifies the checkpoint in dir, all but its tensors' bytes, which are verified as
// they are read. An error wraps ErrCorrupt where the directory is there but is no sound
// checkpoint.
func Open(dir string) (*Checkpoint, error) { return open(disk{}, dir) }

func open(fs fileSystem, dir string) (*Checkpoint, error) {
	if _, err := fs.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	m, err := verify(fs, dir)
	if errors.Is(err, errNewer) {
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

// Meta is what was saved besides the tensors.
func (c *Checkpoint) Meta() Meta {
	return Meta{Run: c.m.Run, Step: c.m.Step, Epoch: c.m.Epoch, WorldSize: c.m.WorldSize, Strategy: c.m.Strategy, Config: c.m.Config, State: c.m.State}
}

// Tensor describes one tensor of a checkpoint.
type Tensor struct {
	Kind, Name string
	DType      tensor.DType
	Shape      tensor.Shape
}

// Tensors lists what the checkpoint holds.
func (c *Checkpoint) Tensors() []Tensor {
	ts := make([]Tensor, len(c.m.Tensors))
	for i, t := range c.m.Tensors {
		dt, _ := t.DType.DType()
		ts[i] = Tensor{t.Kind, t.Name, dt, t.Shape}
	}
	return ts
}

// Close ends reading.
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

// LoadOptions says what a load may do.
type LoadOptions struct {
	// Convert lets a tensor that was saved as F32, BF16 or F16 fill an item of another of
	// these types. Otherwise types must be equal.
	Convert bool
	// Device fills tensors whose memory the host does not see; nil where there are none.
	Device tensor.Memory
}

// Load fills the items' Data. It reads the byte ranges that they need, widened to whole
// chunks, and checks each chunk's CRC. After an error the items' contents are undefined.
// What is missing, or has another shape or type, is an error that names it, before
// anything is read.
func (c *Checkpoint) Load(ctx context.Context, items []Item, o LoadOptions) error {
	for _, it := range items {
		if err := c.fits(it, o); err != nil {
			return err
		}
	}
	r := reader{c: c, memory: memory{o.Device}, chunk: make([]byte, c.m.ChunkBytes)}
	for _, it := range items {
		if err := r.item(ctx, it); err != nil {
			return err
		}
	}
	r.memory.sync()
	return nil
}

func (c *Checkpoint) fits(it Item, o LoadOptions) error {
	if err := it.check(memory{o.Device}); err != nil {
		return err
	}
	i, ok := c.index[key(it.Kind, it.Name)]
	if !ok {
		return fault.Try(fmt.Errorf("checkpoint: %s has no %s of %s", c.dir, it.Kind, it.Name), "the configuration that the run began with")
	}
	t := c.m.Tensors[i]
	if !t.Shape.Equal(it.Shape) {
		return fault.Try(fmt.Errorf("checkpoint: %s of %s is %v in %s, %v here", it.Kind, it.Name, t.Shape, c.dir, it.Shape), "the model that the run began with, or %s", fault.Set("resume", "none"))
	}
	dt, _ := t.DType.DType()
	if dt != it.DType && !(o.Convert && safetensors.Convertible(dt, it.DType)) {
		return fmt.Errorf("checkpoint: %s of %s is %v in %s, %v here", it.Kind, it.Name, dt, c.dir, it.DType)
	}
	return nil
}

// file is data file i.
func (c *Checkpoint) file(i int) (file, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[i] == nil {
		f, err := c.fs.Open(filepath.Join(c.dir, c.m.Files[i].Name))
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		c.files[i] = f
	}
	return c.files[i], nil
}

// reader is one load.
type reader struct {
	c      *Checkpoint
	memory memory
	chunk  []byte
	has    struct { // what chunk begins with
		piece *piece
		k     int
		b     []byte
	}
	converted []byte
}

// item fills one item from the pieces that its box meets.
func (r *reader) item(ctx context.Context, it Item) error {
	t := r.c.m.Tensors[r.c.index[key(it.Kind, it.Name)]]
	for i := range t.Pieces {
		p := &t.Pieces[i]
		at := 0 // of the box, in the piece
		for _, b := range p.boxes(t.Shape) {
			if both, ok := b.Intersect(it.Box); ok {
				for run := range both.Runs(b, it.Box) {
					if err := r.run(ctx, t, p, at+run.X, it, run.Y, run.N); err != nil {
						return err
					}
				}
			}
			at += b.Elems()
		}
	}
	return nil
}

// run fills elements [to, to+n) of an item with those of a piece from element at on.
func (r *reader) run(ctx context.Context, t manifestTensor, p *piece, at int, it Item, to, n int) error {
	from, _ := t.DType.DType()
	size := from.Size()
	per := r.c.m.ChunkBytes / size
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("checkpoint: load %s: %w", t.key(), context.Cause(ctx))
		}
		k, in := at/per, at%per
		all := min(per, p.elems()-k*per) // elements of the chunk
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

// cached is chunk k of a piece, which may be the one that was read last.
func (r *reader) cached(t manifestTensor, p *piece, k int) ([]byte, error) {
	if r.has.piece == p && r.has.k == k {
		return r.has.b, nil
	}
	r.has.piece = nil
	b, err := r.read(t, p, k, r.chunk)
	if err == nil {
		r.has.piece, r.has.k, r.has.b = p, k, b
	}
	return b, err
}

// direct is the item's own memory for its elements [lo, hi), where bytes can be read into it.
func (r *reader) direct(it Item, from tensor.DType, lo, hi int) []byte {
	if it.Data.Buffer().Bytes == nil || from != it.DType {
		return nil
	}
	return r.own(it, lo, hi)
}

// own is the item's own memory for its elements [lo, hi), which the host sees.
func (r *reader) own(it Item, lo, hi int) []byte {
	size := it.DType.Size()
	return tensor.HostBytes(it.Data)[lo*size : hi*size]
}

// store puts elements [lo, hi), of type from, in the item.
func (r *reader) store(it Item, from tensor.DType, lo, hi int, b []byte) error {
	if it.Data.Buffer().Bytes != nil {
		safetensors.Convert(r.own(it, lo, hi), it.DType, b, from)
		return nil
	}
	if from != it.DType {
		if r.converted == nil {
			r.converted = make([]byte, 2*r.c.m.ChunkBytes) // of 2-byte elements as 4-byte ones
		}
		out := r.converted[:(hi-lo)*it.DType.Size()]
		safetensors.Convert(out, it.DType, b, from)
		b = out
	}
	return r.memory.put(it.Data.Flat(lo, hi), b)
}

// read reads chunk k of a piece to the beginning of buf and checks it.
func (r *reader) read(t manifestTensor, p *piece, k int, buf []byte) ([]byte, error) {
	f, err := r.c.file(p.File)
	if err != nil {
		return nil, err
	}
	bytes := p.elems() * t.DType.Size()
	b := buf[:min(r.c.m.ChunkBytes, bytes-k*r.c.m.ChunkBytes)]
	at := p.Offset + int64(k)*int64(r.c.m.ChunkBytes)
	if n, err := f.ReadAt(b, at); n < len(b) {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %w", ErrCorrupt, io.ErrUnexpectedEOF)
		}
		return nil, fmt.Errorf("checkpoint: read %s from %s: %w", t.key(), r.path(p), err)
	}
	if crc32.Checksum(b, castagnoli) != p.CRC[k] {
		return nil, fmt.Errorf("checkpoint: %s: %w: bytes [%d,%d), of %s, are not those that were saved", r.path(p), ErrCorrupt, at, at+int64(len(b)), t.key())
	}
	return b, nil
}

func (r *reader) path(p *piece) string { return filepath.Join(r.c.dir, r.c.m.Files[p.File].Name) }
