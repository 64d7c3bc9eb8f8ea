package convert

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"trireme/checkpoint"
	"trireme/internal/durable"
	"trireme/internal/pickle"
	"trireme/internal/torchfile"
)

const dcpFile = "__0_0.distcp"

// writeDCP writes a directory that torch.distributed.checkpoint loads: one file with every tensor
// as a section, each a file of torch.save, and .metadata, written last.
func writeDCP(ctx context.Context, s *Source, dir string, o Options) (Written, error) {
	tensors, notes, err := s.toDCP(o)
	if err != nil {
		return Written{}, err
	}
	w := Written{Path: dir, Notes: notes, Tensors: len(tensors)}
	m := newDCPMetadata()
	err = durable.Replace(filepath.Join(dir, dcpFile), 0o644, func(f *os.File) error {
		out := &counter{w: bufio.NewWriterSize(f, 1<<20)}
		for _, t := range tensors {
			if t.Kind == checkpoint.Param {
				t = t.as(t.dtype(o.DType))
			}
			began := out.n
			if err := torchfile.Write(out, t.Type, t.Shape, func(w io.Writer) error { return t.copyTo(ctx, w) }); err != nil {
				return fmt.Errorf("convert: %s: %w", t.Name, err)
			}
			w.Bytes += t.Bytes()
			m.add(t, o.Under, began, out.n-began)
		}
		return out.w.Flush()
	})
	if err != nil {
		return w, err
	}
	return w, durable.WriteFile(filepath.Join(dir, dcpMetadata), pickle.Encode(m.value()))
}

// dcpPath is the path of a tensor in the state dict of a DCP directory, with the parameters under a key.
func (t Tensor) dcpPath(under string) []string {
	switch {
	case t.Kind != checkpoint.Param:
		return []string{"optimizer", "state", t.Name, t.Kind}
	case under != "":
		return []string{under, t.Name}
	}
	return []string{t.Name}
}

// toDCP returns the tensors to write: parameters and, if both moments of Adam are there, those and the number of steps of
// each. Without Options.Under the directory is a state dict of parameters alone, unless torchtitan's layout has the
// optimizer beside them. The state of other optimizers is left out.
func (s *Source) toDCP(o Options) (all []Tensor, notes []string, err error) {
	kinds := [][]Tensor{s.ofKind(checkpoint.Param)}
	written := len(kinds[0])
	if o.Under != "" || o.Names == TorchTitan {
		first, second := s.moments()
		kinds, written = append(kinds, first, second), written+len(first)+len(second)
	}
	for _, tensors := range kinds {
		renamed, err := o.renamed(s, tensors)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range renamed {
			if all = append(all, t); t.Kind == adamSlots[0] {
				all = append(all, s.steps(t.Name))
			}
		}
	}
	return all, s.leftOut(written), nil
}

// counter counts the bytes written to w.
type counter struct {
	w *bufio.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// dcpWriter is torch.distributed.checkpoint.metadata.Metadata.
type dcpWriter struct{ state, paths, storage *pickle.Dict }

func newDCPMetadata() *dcpWriter { return &dcpWriter{&pickle.Dict{}, &pickle.Dict{}, &pickle.Dict{}} }

func class(module, name string) pickle.Global {
	return pickle.Global{Module: "torch.distributed.checkpoint." + module, Name: name}
}

// object is an object whose state is a dict of keys and values in turn.
func object(of pickle.Global, fields ...any) *pickle.Object {
	d := &pickle.Dict{}
	for i := 0; i < len(fields); i += 2 {
		d.Set(fields[i], fields[i+1])
	}
	return &pickle.Object{Class: of, Args: pickle.Tuple{}, State: d}
}

func size(s []int) pickle.Call {
	t := make(pickle.Tuple, len(s))
	for i, n := range s {
		t[i] = n
	}
	return pickle.Call{Func: pickle.Global{Module: "torch", Name: "Size"}, Args: pickle.Tuple{t}}
}

// add adds a tensor that is one chunk, the section [offset, offset+length) of the file.
func (m *dcpWriter) add(t Tensor, under string, offset, length int64) {
	keys := t.dcpPath(under)
	key, path := strings.Join(keys, "."), make(pickle.Tuple, len(keys))
	for i, k := range keys {
		path[i] = k
	}
	zero := make([]int, len(t.Shape))
	dt, _ := t.Type.DType()
	properties := &pickle.Object{Class: class("metadata", "TensorProperties"), Args: pickle.Tuple{}, State: pickle.Tuple{
		pickle.Global{Module: "torch", Name: dt.String()},
		pickle.Call{Func: pickle.Global{Module: "torch.serialization", Name: "_get_layout"}, Args: pickle.Tuple{"torch.strided"}},
		false, pickle.Call{Func: class("metadata", "_MEM_FORMAT_ENCODING"), Args: pickle.Tuple{0}}, false,
	}}
	chunk := object(class("metadata", "ChunkStorageMetadata"), "offsets", size(zero), "sizes", size(t.Shape))
	m.state.Set(key, object(class("metadata", "TensorStorageMetadata"), "properties", properties, "size", size(t.Shape), "chunks", &pickle.List{Items: []any{chunk}}))
	m.paths.Set(key, path)
	m.storage.Set(object(class("metadata", "MetadataIndex"), "fqn", key, "index", 0, "offset", size(zero)),
		object(class("filesystem", "_StorageInfo"), "relative_path", dcpFile, "offset", offset, "length", length))
}

func (m *dcpWriter) value() any {
	return object(class("metadata", "Metadata"), "state_dict_metadata", m.state, "planner_data", m.paths, "storage_data", m.storage, "storage_meta", nil, "version", nil)
}
