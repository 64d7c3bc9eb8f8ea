package checkpoint

import (
	"context"
	"fmt"
	"time"
)

// File is a data file of a checkpoint.
type File struct {
	Name  string
	Bytes int64
}

// Files lists the data files.
func (c *Checkpoint) Files() []File {
	fs := make([]File, len(c.m.Files))
	for i, f := range c.m.Files {
		fs[i] = File{f.Name, f.Size}
	}
	return fs
}

// Bytes returns the size of all data files.
func (c *Checkpoint) Bytes() (n int64) {
	for _, f := range c.m.Files {
		n += f.Size
	}
	return n
}

// Digest returns the SHA-256 of the manifest in hexadecimal. The manifest has a checksum of all other bytes, so
// checkpoints of one digest have the same content.
func (c *Checkpoint) Digest() string { return c.m.digest }

// Format returns the version of the format and the layout: Sharded or Full.
func (c *Checkpoint) Format() (version int, layout string) { return c.m.Version, c.m.Type }

// Saved returns the time of the commit.
func (c *Checkpoint) Saved() (time.Time, error) {
	at, err := c.fs.Modified(join(c.dir, commitName))
	if err != nil {
		return time.Time{}, fmt.Errorf("checkpoint: %w", err)
	}
	return at, nil
}

// Damage is a range of a data file that cannot be read, or whose bytes are not the saved ones.
type Damage struct {
	File   string
	Tensor string // name in the file
	Offset int64
	Bytes  int64
	Err    error
}

// Verify rereads every byte of every tensor and checks its CRC. It returns all damage. read is called with the bytes
// read so far, after each chunk; nil is allowed.
func (c *Checkpoint) Verify(ctx context.Context, read func(done int64)) (found []Damage, err error) {
	r := reader{c: c, chunk: make([]byte, c.m.ChunkBytes)}
	done := int64(0)
	for _, t := range c.m.Tensors {
		for i := range t.Pieces {
			p := &t.Pieces[i]
			left := int64(p.elems()) * int64(t.DType.Size())
			for k := range p.CRC {
				if err := ctx.Err(); err != nil {
					return found, fmt.Errorf("checkpoint: verify %s: %w", c.dir, context.Cause(ctx))
				}
				n := min(left, int64(c.m.ChunkBytes))
				if _, err := r.read(t, p, k, r.chunk); err != nil {
					found = append(found, Damage{c.m.Files[p.File].Name, t.key(), p.Offset + int64(k)*int64(c.m.ChunkBytes), n, err})
				}
				left, done = left-n, done+n
				if read != nil {
					read(done)
				}
			}
		}
	}
	return found, nil
}
