package checkpoint

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/tensor"
)

// MaxShardSize is the default limit, in bytes, of one exported weight file.
const MaxShardSize = 5_000_000_000

// ExportOptions configures Export.
type ExportOptions struct {
	MaxShardSize int64         // bytes of tensors per file; 0 is MaxShardSize. A larger tensor gets a file of its own
	Device       tensor.Memory // copies shards that are not in host memory; may be nil
}

// Export writes weights into dir in Hugging Face's layout: model.safetensors, or several files with
// model.safetensors.index.json if they exceed MaxShardSize. All ranks call it with the same
// entries: name, dtype to write (F32, BF16 and F16 are converted) and shape of every tensor, in
// file order. shards are this rank's. Each rank writes its own ranges, so no rank holds the full
// model, and the bytes do not depend on the number of ranks. The headers have checksums of all tensors, which package safetensors
// compares when it reads.
//
// Existing weights in dir are replaced atomically once all new bytes are durable: by renaming the
// one file, or the index, whose shard names are new. If any rank fails before that, all return its
// error and the existing weights stay.
func Export(ctx context.Context, dir string, entries []safetensors.Entry, shards []tensor.Shard, ranks ProcessGroup, o ExportOptions) error {
	return export(ctx, disk{}, dir, entries, shards, ranks, o)
}

func export(ctx context.Context, fs fileSystem, dir string, entries []safetensors.Entry, shards []tensor.Shard, ranks ProcessGroup, o ExportOptions) error {
	e := exporter{fs: fs, dir: dir, rank: ranks.Rank(), memory: memory{o.Device}}
	e.memory.sync()
	err := e.layOut(entries, o.MaxShardSize)
	for _, s := range shards {
		it := Item{Param, s}
		if err == nil {
			err = it.check(e.memory)
		}
		e.items = append(e.items, it)
	}
	if err == nil && e.rank == 0 {
		err = e.begin()
	}
	world, err := agree(ctx, ranks, describe(e.items), err)
	if err != nil {
		return e.abandon(err)
	}
	err = e.write(ctx, world)
	sums, err := agree(ctx, ranks, e.sums(), err)
	if err != nil {
		return e.abandon(err)
	}
	if e.rank == 0 {
		err = e.publish(sums)
	}
	if _, err = agree(ctx, ranks, struct{}{}, err); err != nil {
		return e.abandon(err)
	}
	return nil
}

// exporter is one rank's part of an export.
type exporter struct {
	fs     fileSystem
	dir    string
	rank   int
	memory memory
	items  []Item
	files  []exportFile
	where  map[string]int // tensor -> file
	total  int64          // bytes of all tensors

	chunk, converted []byte // one chunk each
}

type exportFile struct {
	name   string
	layout *safetensors.Layout
	sums   *safetensors.Sums // of what this rank writes
}

func (f exportFile) temp(dir string) string { return filepath.Join(dir, tempPrefix+f.name) }

// layOut assigns the entries to files, filling each before the next.
func (e *exporter) layOut(entries []safetensors.Entry, limit int64) error {
	if limit <= 0 {
		limit = MaxShardSize
	}
	var groups [][]safetensors.Entry
	free := int64(0)
	e.where = make(map[string]int, len(entries))
	for _, t := range entries {
		if !validShape(t.Shape, t.DType) {
			return fmt.Errorf("checkpoint: export %s: invalid shape %v", t.Name, t.Shape)
		}
		if _, ok := e.where[t.Name]; ok {
			return fmt.Errorf("checkpoint: export %s: declared twice", t.Name)
		}
		n := t.Bytes()
		if len(groups) == 0 || n > free && free < limit {
			groups, free = append(groups, nil), limit
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], t)
		e.where[t.Name] = last
		free -= n
		e.total += n
	}
	if len(groups) == 0 {
		return fmt.Errorf("checkpoint: export to %s: no tensors", e.dir)
	}
	for i, g := range groups {
		l, err := safetensors.NewChecksumLayout(g, map[string]string{"format": "pt"})
		if err != nil {
			return fmt.Errorf("checkpoint: export to %s: %w", e.dir, err)
		}
		name := safetensors.ModelFile
		if len(groups) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(groups))
		}
		e.files = append(e.files, exportFile{name, l, l.NewSums()})
	}
	return nil
}

// begin creates the directory and removes the temporary files of an interrupted export.
func (e *exporter) begin() error {
	if err := e.fs.MkdirAll(e.dir); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return e.sweep()
}

// write writes this rank's boxes.
func (e *exporter) write(ctx context.Context, world [][]held) error {
	plan, err := plan(world, false)
	if err != nil {
		return err
	}
	parts := make([][]planned, len(e.files))
	for _, t := range plan {
		i, ok := e.where[t.Name]
		if !ok {
			return fmt.Errorf("checkpoint: export to %s: %s is not declared and would be lost", e.dir, t.Name)
		}
		to, _, _ := e.files[i].layout.Find(t.Name)
		if !to.Shape.Equal(t.Shape) || !safetensors.Convertible(t.DType, to.DType) {
			return fmt.Errorf("checkpoint: export %v: ranks hold %v%v", to, t.DType, t.Shape)
		}
		parts[i] = append(parts[i], t)
	}
	for i, f := range e.files {
		if n := len(f.layout.Entries()); len(parts[i]) < n {
			return fmt.Errorf("checkpoint: export to %s: no rank holds %s", e.dir, missingName(f.layout, parts[i]))
		}
		mine := slices.ContainsFunc(parts[i], func(t planned) bool {
			return slices.ContainsFunc(t.parts, func(p part) bool { return p.rank == e.rank })
		})
		if !mine && e.rank != 0 {
			continue
		}
		shared := slices.ContainsFunc(parts[i], func(t planned) bool {
			return slices.ContainsFunc(t.parts, func(p part) bool { return p.rank != 0 })
		})
		slices.SortFunc(parts[i], func(a, b planned) int { // as in the file
			_, atA, _ := f.layout.Find(a.Name)
			_, atB, _ := f.layout.Find(b.Name)
			return cmp.Compare(atA, atB)
		})
		err := writeFile(e.fs, f.temp(e.dir), f.layout.Size(), shared, func(w file) error { return e.fill(ctx, w, f, parts[i]) })
		if err != nil {
			return err
		}
	}
	return nil
}

func missingName(l *safetensors.Layout, have []planned) string {
	for _, t := range l.Entries() {
		if !slices.ContainsFunc(have, func(p planned) bool { return p.Name == t.Name }) {
			return t.Name
		}
	}
	return ""
}

// fill writes this rank's parts of one file.
func (e *exporter) fill(ctx context.Context, w file, f exportFile, tensors []planned) error {
	if e.rank == 0 {
		if err := writeAt(w, f.layout.Header(), 0, "a header"); err != nil {
			return err
		}
	}
	for _, t := range tensors {
		for _, p := range t.parts {
			if p.rank != e.rank {
				continue
			}
			for _, r := range p.runs(t.Shape) {
				if err := e.part(ctx, w, f, t, r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// part writes consecutive elements of a tensor, converted to the type of the file, and adds them to its checksums.
func (e *exporter) part(ctx context.Context, w file, f exportFile, t planned, p placed) error {
	entry, at, _ := f.layout.Find(t.Name)
	it, from, to := e.items[p.item], t.DType, entry.DType
	size := to.Size()
	if e.chunk == nil {
		e.chunk, e.converted = make([]byte, chunkBytes), make([]byte, chunkBytes)
	}
	per, n := chunkBytes/max(size, from.Size()), p.box.Elems()
	for lo := 0; lo < n; lo += per {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("checkpoint: write %s: %w", t.Name, context.Cause(ctx))
		}
		hi := min(n, lo+per)
		b, err := e.memory.bytes(it.Data, p.at+lo, p.at+hi, e.chunk)
		if err != nil {
			return fmt.Errorf("checkpoint: read %s: %w", t.Name, err)
		}
		if from != to {
			narrow := e.converted[:(hi-lo)*size]
			safetensors.Convert(narrow, to, b, from)
			if to == tensor.F16 && Overflows(narrow, b, from) {
				return fault.Try(fmt.Errorf("checkpoint: write %s: values exceed 65504, the float16 maximum", t.Name), "bfloat16 or float32")
			}
			b = narrow
		}
		if err := f.sums.Add(t.Name, p.to+lo, b); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		if err := writeAt(w, b, at+int64((p.to+lo)*size), t.Name); err != nil {
			return err
		}
	}
	return nil
}

// sums returns the checksums of what this rank wrote, by file.
func (e *exporter) sums() [][]safetensors.Part {
	parts := make([][]safetensors.Part, len(e.files))
	for i, f := range e.files {
		parts[i] = f.sums.Parts()
	}
	return parts
}

// Overflows reports whether half has an infinite F16 where the source value in b is finite.
func Overflows(half, b []byte, from tensor.DType) bool {
	const infinite = 0x7c00
	le, one := binary.LittleEndian, make([]byte, 4)
	for i := 0; i < len(half); i += 2 {
		if le.Uint16(half[i:])&0x7fff != infinite {
			continue
		}
		n := from.Size()
		safetensors.Convert(one, tensor.F32, b[i/2*n:(i/2+1)*n], from)
		if !math.IsInf(float64(math.Float32frombits(le.Uint32(one))), 0) {
			return true
		}
	}
	return false
}

// abandon removes the files of a failed export and returns failure.
func (e *exporter) abandon(failure error) error {
	if e.rank == 0 {
		_ = e.sweep() // the next export sweeps again
	}
	return failure
}
