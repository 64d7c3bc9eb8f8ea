package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/model"
	"trireme/tensor"
)

// Options configures a conversion.
type Options struct {
	DType    string         // float32, bfloat16 or float16 for parameters of floats, or q8_0 for gguf; "" keeps types
	Shard    int64          // most bytes of a file of a Hugging Face directory; 0 is checkpoint.MaxShardSize
	Under    string         // key of the state dict in a DCP directory; "" for none
	Names    string         // TorchTitan for its names in a DCP directory; "" is Hugging Face's
	Model    string         // directory with config.json and a tokenizer; "" is the source's
	Families model.Registry // reads config.json, for the formats that need it
}

// Written is the result of a conversion.
type Written struct {
	Path    string
	Tensors int
	Bytes   int64 // of tensors
	Notes   []string
}

// Target is a format to write.
type Target struct {
	Name, What string
	// Write writes a source to dir, which does not exist or is empty. After an error the caller
	// removes dir.
	Write func(ctx context.Context, s *Source, dir string, o Options) (Written, error)
}

// Targets lists the formats that can be written.
var Targets = []Target{
	{"hf", "a Hugging Face directory with safetensors", writeHF},
	{"gguf", "a directory with model.gguf, for llama.cpp and ollama", writeGGUF},
	{"dcp", "a torch.distributed.checkpoint directory", writeDCP},
	{"trireme", "an output_dir with a checkpoint to resume from", writeOwn},
}

// FindTarget returns a format by name.
func FindTarget(name string) (Target, bool) {
	i := slices.IndexFunc(Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return Target{}, false
	}
	return Targets[i], true
}

// Run writes s to dir, which must not exist or be empty.
func (t Target) Run(ctx context.Context, s *Source, dir string, o Options) (Written, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case len(entries) > 0:
		return Written{}, fault.Try(fmt.Errorf("convert: %s exists and is not empty", dir), "another directory")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Written{}, fmt.Errorf("convert: %w", err)
	}
	if err := o.inHuggingFace(s); err != nil {
		return Written{}, err
	}
	made := err != nil
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Written{}, fmt.Errorf("convert: %w", err)
	}
	w, err := t.Write(ctx, s, dir, o)
	if err == nil {
		return w, nil
	}
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if made {
		err = errors.Join(err, os.Remove(dir))
	}
	return Written{}, err
}

// isFloat reports whether a tensor's elements are floats of 16, 32 or 64 bits.
func (t Tensor) isFloat() bool {
	dt, _ := t.Type.DType()
	return safetensors.Convertible(dt, tensor.F32) || dt == tensor.F64
}

// dtype returns the type to write a tensor in: as, if it is a tensor of floats and as is not empty.
func (t Tensor) dtype(as string) tensor.DType {
	if to, ok := tensor.ParseDType(as); ok && t.isFloat() {
		return to
	}
	from, _ := t.Type.DType()
	return from
}

// narrow returns a tensor of float64 as float32 if it is to be written as another type than float64.
func (t Tensor) narrow(to tensor.DType) Tensor {
	if t.Type != "F64" || to == tensor.F64 {
		return t
	}
	read := t.Read
	t.Type = "F32"
	t.Read = func(first, count int, dst []byte) error {
		wide := make([]byte, 8*count)
		if err := read(first, count, wide); err != nil {
			return err
		}
		for i, v := range tensor.FromBytes[float64](wide) {
			copy(dst[4*i:], tensor.AsBytes([]float32{float32(v)}))
		}
		return nil
	}
	return t
}

// shard returns the tensor as a shard whose elements are read when they are written.
func (t Tensor) shard(name string) tensor.Shard {
	dt, _ := t.Type.DType()
	b := tensor.NewBuffer(nil, int(t.Bytes()), tensor.Offloaded, nil)
	b.Backing = lazy{t, dt.Size()}
	return tensor.Shard{Name: name, DType: dt, Shape: t.Shape, Box: tensor.FullBox(t.Shape), Data: tensor.Of(b, dt, 0, t.Shape.Elems())}
}

// lazy is a tensor's elements as a tensor.BackingStore.
type lazy struct {
	t    Tensor
	size int
}

func (l lazy) ReadAt(b []byte, at int64) (int, error) {
	if err := l.t.Read(int(at)/l.size, len(b)/l.size, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (l lazy) WriteAt([]byte, int64) (int, error) {
	return 0, errors.New("convert: a source is read only")
}

// copyTo writes all elements of a tensor to w, in chunks.
func (t Tensor) copyTo(ctx context.Context, w io.Writer) error {
	size := t.Type.Size()
	n, per := t.Shape.Elems(), (1<<20)/size
	b := make([]byte, min(n, per)*size)
	for at := 0; at < n; at += per {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		count := min(per, n-at)
		if err := t.Read(at, count, b[:count*size]); err != nil {
			return err
		}
		if _, err := w.Write(b[:count*size]); err != nil {
			return err
		}
	}
	return nil
}

// as returns a tensor converted to a type.
func (t Tensor) as(to tensor.DType) Tensor {
	t = t.narrow(to)
	from, _ := t.Type.DType()
	if from == to {
		return t
	}
	read, name := t.Read, t.Name
	t.Type = safetensors.TypeOf(to)
	t.Read = func(first, count int, dst []byte) error {
		b := make([]byte, count*from.Size())
		if err := read(first, count, b); err != nil {
			return err
		}
		safetensors.Convert(dst, to, b, from)
		if to == tensor.F16 && checkpoint.Overflows(dst, b, from) {
			return fault.Try(fmt.Errorf("convert: %s: values exceed 65504, the float16 maximum", name), "--dtype bfloat16 or float32")
		}
		return nil
	}
	return t
}
