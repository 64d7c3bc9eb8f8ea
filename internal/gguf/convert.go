package gguf

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"trireme/checkpoint/safetensors"
	"trireme/internal/durable"
	"trireme/model"
	"trireme/tensor"
	"trireme/tokenizer"
)

// Weights are the tensors of a model by their names in Hugging Face files, as *safetensors.Files.
type Weights interface {
	Name() string // for errors
	Find(name string) (safetensors.Info, bool)
	ReadAs(name string, dt tensor.DType, first, count int, dst []byte) error
}

// Source is a model to convert.
type Source struct {
	Name      string // general.name
	Config    []byte // config.json
	Path      string // of config.json, for errors
	Tokenizer string // directory, which may have none, or file of one
	Weights   Weights
}

// ConvertDirectory is Convert for a Hugging Face directory.
func ConvertDirectory(ctx context.Context, dir, path string, t Type) (notes []string, err error) {
	s := Source{Name: filepath.Base(filepath.Clean(dir)), Path: filepath.Join(dir, "config.json"), Tokenizer: dir}
	if s.Config, err = model.ReadFile(s.Path); err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	files, err := safetensors.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	s.Weights = files
	return Convert(ctx, s, path, t)
}

// Convert writes a model to a file, which it replaces atomically. Matrices are of type t; vectors and GPT-2's positions
// are always F32, and matrices whose rows are not multiples of 32 are F16 in a file of Q8_0, as in llama.cpp's
// converter. notes say what llama.cpp computes differently. A model that llama.cpp cannot run is an error.
func Convert(ctx context.Context, s Source, path string, t Type) (notes []string, err error) {
	if _, ok := types[t]; !ok {
		return nil, fmt.Errorf("gguf: cannot write %v", t)
	}
	n, err := newNetwork(s.Path, s.Config)
	if err != nil {
		return nil, err
	}
	tensors, err := n.read(ctx, s.Weights, t)
	if err != nil {
		return nil, err
	}
	metadata := slices.Concat([]KV{
		{"general.architecture", n.arch}, {"general.type", "model"}, {"general.name", s.Name},
		{"general.file_type", types[t].fileType}, {"general.quantization_version", uint32(2)},
	}, n.metadata)
	notes = n.notes
	if hasTokenizer(s.Tokenizer) {
		tok, err := tokenizer.Load(s.Tokenizer)
		if err != nil {
			return nil, err
		}
		kvs, more, err := vocabulary(tok, n.vocab, endOfText(s.Config))
		if err != nil {
			return nil, err
		}
		metadata, notes = append(metadata, kvs...), append(notes, more...)
	} else {
		metadata = append(metadata, KV{"tokenizer.ggml.model", "no_vocab"})
		notes = append(notes, "there is no tokenizer, so the file has none")
	}
	err = durable.Replace(path, 0o644, func(f *os.File) error { return Write(f, metadata, tensors) })
	return notes, err
}

// hasTokenizer reports whether path is a tokenizer's file, or a directory with one.
func hasTokenizer(path string) bool {
	st, err := os.Stat(path)
	return err == nil && (!st.IsDir() || tokenizer.Exists(path))
}

// read returns the tensors to write. It checks that the files have all of them, in the right shapes.
func (n *network) read(ctx context.Context, files Weights, t Type) ([]Tensor, error) {
	var out []Tensor
	for _, m := range n.tensors {
		to := Tensor{Info: Info{Name: m.name, Type: t, Shape: m.shape}}
		switch {
		case len(m.shape) == 1 || m.exact:
			to.Type = F32
		case m.shape[1]%types[t].elems != 0:
			to.Type = F16
		}
		if m.order == constant {
			to.Read = func(first int64, dst []float32) error { copy(dst, m.value[first:]); return nil }
			out = append(out, to)
			continue
		}
		info, ok := files.Find(m.from)
		if _, bare, cut := strings.Cut(m.from, "."); !ok && cut { // files of the base model lack the prefix
			info, ok = files.Find(bare)
		}
		if !ok {
			return nil, fmt.Errorf("gguf: %s has no tensor %s", files.Name(), m.from)
		}
		want := slices.Clone(m.shape)
		if m.order == transposed {
			slices.Reverse(want)
		}
		if dt, known := info.Type.DType(); !slices.Equal(info.Shape, want) || !known || !safetensors.Convertible(dt, tensor.F32) {
			return nil, fmt.Errorf("gguf: %s: %v is not %v of floats, as config.json says", files.Name(), info, want)
		}
		s := source{files, info.Name, m}
		to.Read = func(first int64, dst []float32) error {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("gguf: write %s: %w", m.name, context.Cause(ctx))
			}
			return s.read(int(first), dst)
		}
		out = append(out, to)
	}
	return out, nil
}

// source reads a tensor of the model in the order of the file.
type source struct {
	files Weights
	name  string
	mapped
}

func (s source) read(first int, dst []float32) error {
	switch s.order {
	case transposed:
		return s.columns(first, dst)
	case pairs:
		return s.rotated(first, dst)
	}
	return s.stored(first, dst)
}

// stored reads elements as they are stored.
func (s source) stored(first int, dst []float32) error {
	return s.files.ReadAs(s.name, tensor.F32, first, len(dst), tensor.AsBytes(dst))
}

// columns reads rows of the transposed matrix: it reads all stored rows, one by one, and takes their columns.
func (s source) columns(first int, dst []float32) error {
	out, in := s.shape[0], s.shape[1]
	row := make([]float32, out)
	lo, hi := first/in, (first+len(dst))/in
	for k := range in {
		if err := s.stored(k*out+lo, row[lo:hi]); err != nil {
			return err
		}
		for i := lo; i < hi; i++ {
			dst[(i-lo)*in+k] = row[i]
		}
	}
	return nil
}

// HalfRow returns the row of a weight of Hugging Face, whose heads of size rows have two halves that rotate together, for
// a row of one whose heads have the halves interleaved: row 2i+j of a head is its row j*size/2+i.
func HalfRow(row, size int) int {
	in := row % size
	return row - in + in%2*size/2 + in/2
}

// rotated reads rows with the two halves of each head interleaved.
func (s source) rotated(first int, dst []float32) error {
	width := 1
	if len(s.shape) == 2 {
		width = s.shape[1]
	}
	size := s.shape[0] / s.heads
	for at := 0; at < len(dst); at += width {
		row := (first + at) / width
		if err := s.stored(HalfRow(row, size)*width, dst[at:at+width]); err != nil {
			return err
		}
	}
	return nil
}
