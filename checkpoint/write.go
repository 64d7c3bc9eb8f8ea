package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

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

// writer is one rank's part of writing a checkpoint.
type writer struct {
	fs     fileSystem
	dir    string
	rank   int
	memory memory
	chunk  int // bytes per CRC
	items  []Item
	plan   []planned
	buf    []byte // for tensors outside host memory
}

// rankFile is the file name of a rank in a sharded checkpoint.
func rankFile(rank int) string { return fmt.Sprintf("rank-%05d.safetensors", rank) }

// sharded writes this rank's parts into its file, each as a tensor named after its box.
func (w *writer) sharded(ctx context.Context) (written, error) {
	var entries []safetensors.Entry
	var out written
	w.each(func(i int, t planned, p part) error {
		entries = append(entries, safetensors.Entry{Name: key(t.Kind, t.Name) + p.box.String(), DType: t.DType, Shape: p.box.Sizes})
		out.Pieces = append(out.Pieces, writtenPiece{i, piece{Box: p.box}})
		return nil
	})
	if len(entries) == 0 {
		return out, nil
	}
	l, err := safetensors.NewLayout(entries, nil)
	if err != nil {
		return out, err
	}
	out.Files = []manifestFile{describeFile(rankFile(w.rank), l)}
	return out, w.file(rankFile(w.rank), l.Size(), func(f file) error {
		if err := writeAt(f, l.Header(), 0, "a header"); err != nil {
			return err
		}
		n := 0
		return w.each(func(_ int, t planned, p part) error {
			piece := &out.Pieces[n].Piece
			piece.Offset = l.Offset(n)
			n++
			piece.CRC, err = w.part(ctx, f, piece.Offset, t, p)
			return err
		})
	})
}

// full writes this rank's parts into the one file of all ranks.
func (w *writer) full(ctx context.Context) (written, error) {
	entries := make([]safetensors.Entry, len(w.plan))
	for i, t := range w.plan {
		entries[i] = safetensors.Entry{Name: key(t.Kind, t.Name), DType: t.DType, Shape: t.Shape}
	}
	var out written
	l, err := safetensors.NewLayout(entries, nil)
	if err != nil {
		return out, err
	}
	if w.rank == 0 {
		out.Files = []manifestFile{describeFile(fullName, l)}
	}
	return out, w.file(fullName, l.Size(), func(f file) error {
		if w.rank == 0 {
			if err := writeAt(f, l.Header(), 0, "a header"); err != nil {
				return err
			}
		}
		return w.each(func(i int, t planned, p part) error {
			for _, r := range p.runs(t.Shape) {
				at := l.Offset(i) + int64(r.to)*int64(t.DType.Size())
				crc, err := w.part(ctx, f, at, t, r.part)
				if err != nil {
					return err
				}
				out.Pieces = append(out.Pieces, writtenPiece{i, piece{File: -1, Offset: at, Box: r.box, CRC: crc}})
			}
			return nil
		})
	})
}

// each calls f for each part of this rank, in plan order.
func (w *writer) each(f func(i int, t planned, p part) error) error {
	for i, t := range w.plan {
		for _, p := range t.parts {
			if p.rank == w.rank {
				if err := f(i, t, p); err != nil {
					return err
				}
			}
		}
	}
	return nil
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

// file creates a file of the given size, fills it and syncs it.
func (w *writer) file(name string, size int64, fill func(file) error) error {
	return writeFile(w.fs, filepath.Join(w.dir, name), size, fill)
}

const sameDirectory = "all ranks must write to the same directory"

func writeFile(fs fileSystem, path string, size int64, fill func(file) error) (err error) {
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
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("checkpoint: sync %s: %w", path, err)
	}
	return nil
}

// part writes one part at offset at and returns its checksums. Each chunk is summed just before it
// is written, while it is in cache.
func (w *writer) part(ctx context.Context, f file, at int64, t planned, p part) ([]uint32, error) {
	it, size := w.items[p.item], t.DType.Size()
	per, n := w.chunk/size, p.box.Elems()
	crcs := make([]uint32, 0, (n-1)/per+1)
	for lo := 0; lo < n; lo += per {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("checkpoint: write %s: %w", key(t.Kind, t.Name), context.Cause(ctx))
		}
		hi := min(n, lo+per)
		b, err := w.memory.bytes(it.Data, p.at+lo, p.at+hi, w.scratch(it.Data))
		if err != nil {
			return nil, fmt.Errorf("checkpoint: read %s: %w", key(t.Kind, t.Name), err)
		}
		crcs = append(crcs, crc32.Checksum(b, castagnoli))
		if err := writeAt(f, b, at+int64(lo*size), key(t.Kind, t.Name)); err != nil {
			return nil, err
		}
	}
	return crcs, nil
}

// scratch returns a buffer for one chunk of a tensor outside host memory.
func (w *writer) scratch(t *tensor.Tensor) []byte {
	if t.Buffer().Bytes == nil && w.buf == nil {
		w.buf = make([]byte, w.chunk)
	}
	return w.buf
}
