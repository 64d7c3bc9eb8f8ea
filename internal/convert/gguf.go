package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/internal/gguf"
	"trireme/tensor"
)

// ggufFile is the name of the file in the target.
const ggufFile = "model.gguf"

// writeGGUF writes one file for llama.cpp, with the tokenizer.
func writeGGUF(ctx context.Context, s *Source, dir string, o Options) (Written, error) {
	params := s.ofKind(checkpoint.Param)
	w := Written{Path: filepath.Join(dir, ggufFile), Notes: s.leftOut(len(params))}
	config, path, err := o.configOf(s)
	if err == nil && config == nil {
		err = fault.Try(errors.New("convert: a GGUF file needs the model's config.json"), "--model DIR with it")
	}
	if err != nil {
		return w, err
	}
	kind := gguf.F32
	if o.DType != "" {
		if kind, err = gguf.ParseType(o.DType); err != nil {
			return w, err
		}
	} else if !slices.ContainsFunc(params, func(t Tensor) bool { return t.Type != params[0].Type }) && len(params) > 0 {
		kind = map[safetensors.Type]gguf.Type{"F16": gguf.F16, "BF16": gguf.BF16}[params[0].Type] // else F32, which is 0
	}
	from := gguf.Source{
		Name: filepath.Base(filepath.Clean(cmp.Or(o.Model, s.Path))), Config: config, Path: path,
		Tokenizer: o.modelDir(s), Weights: named{s.Path, params},
	}
	more, err := gguf.Convert(ctx, from, w.Path, kind)
	if err != nil {
		return w, err
	}
	w.Notes = append(w.Notes, more...)
	f, err := gguf.Open(w.Path)
	if err != nil {
		return w, err
	}
	defer f.Close()
	for _, t := range f.Tensors() {
		n, _ := t.Type.Size(t.Elems())
		w.Tensors, w.Bytes = w.Tensors+1, w.Bytes+n
	}
	return w, nil
}

// named is a source's parameters by name.
type named struct {
	path string
	all  []Tensor
}

var _ gguf.Weights = named{}

func (n named) Name() string { return n.path }

func (n named) Find(name string) (safetensors.Info, bool) {
	i := slices.IndexFunc(n.all, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return safetensors.Info{}, false
	}
	t := n.all[i]
	return safetensors.Info{Name: t.Name, Type: t.Type, Shape: t.Shape, Size: t.Bytes()}, true
}

func (n named) ReadAs(name string, dt tensor.DType, first, count int, dst []byte) error {
	i := slices.IndexFunc(n.all, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("convert: %s has no tensor %s", n.path, name)
	}
	return n.all[i].as(dt).Read(first, count, dst)
}
