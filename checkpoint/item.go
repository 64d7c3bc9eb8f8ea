package checkpoint

import (
	"fmt"
	"math"
	"unicode/utf8"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// Param is the kind of parameters. Other kinds are slots of optimizer state.
const Param = "param"

// Item is a box of a tensor, with its kind, that this rank holds. Several ranks may hold the same
// box, and boxes may overlap, if the values are equal.
type Item struct {
	Kind string
	tensor.Shard
}

// key returns the tensor's name in data files: name for parameters, kind/name for the rest.
func key(kind, name string) string {
	if kind == Param {
		return name
	}
	return kind + "/" + name
}

// check validates an item and that m can access its memory.
func (it Item) check(m memory) error {
	switch k := key(it.Kind, it.Name); {
	case it.Kind == "" || it.Name == "" || !utf8.ValidString(k):
		return fmt.Errorf("checkpoint: a tensor without a name or a kind: %q", k)
	case safetensors.TypeOf(it.DType) == "":
		return fmt.Errorf("checkpoint: %s: safetensors has no type %v", k, it.DType)
	case !validShape(it.Shape, it.DType):
		return fmt.Errorf("checkpoint: %s has shape %v", k, it.Shape)
	case !it.Box.In(it.Shape):
		return fmt.Errorf("checkpoint: %s: box %v + %v is outside %v", k, it.Box.Offsets, it.Box.Sizes, it.Shape)
	case it.Box.Elems() > 0 && (it.Data == nil || it.Data.DType() != it.DType || it.Data.Elems() != it.Box.Elems() || !it.Data.Contiguous()):
		return fmt.Errorf("checkpoint: %s: a box of %d %v elements does not match its tensor %v", k, it.Box.Elems(), it.DType, it.Data)
	case it.Box.Elems() > 0 && it.Data.Buffer().Bytes == nil && it.Data.Buffer().Backing == nil && m.device == nil:
		return fmt.Errorf("checkpoint: %s: it is not in host memory, and no device was given", k)
	}
	return nil
}

// maxDims is PyTorch's limit of dimensions.
const maxDims = 64

// validShape reports whether the size in bytes is valid and fits an int.
func validShape(s tensor.Shape, dt tensor.DType) bool {
	if len(s) > maxDims {
		return false
	}
	n, zero := dt.Size(), false
	for _, d := range s {
		if d < 0 {
			return false
		}
		zero = zero || d == 0
	}
	for _, d := range s {
		if !zero && n > math.MaxInt/d {
			return false
		}
		n *= d
	}
	return true
}

// memory copies between tensors and bytes. device is nil if all tensors are in host memory.
type memory struct{ device tensor.Memory }

// bytes returns elements [lo, hi) of t: a view of host memory, or a copy in buf, which is large
// enough.
func (m memory) bytes(t *tensor.Tensor, lo, hi int, buf []byte) ([]byte, error) {
	if t.Buffer().Bytes != nil {
		return tensor.HostBytes(t)[lo*t.DType().Size() : hi*t.DType().Size()], nil
	}
	b := buf[:(hi-lo)*t.DType().Size()]
	if t.Buffer().Backing != nil {
		return b, tensor.Fetch(b, t.Flat(lo, hi))
	}
	m.device.Download(b, t.Flat(lo, hi))
	return b, nil
}

// put writes all of t, which is not in host memory.
func (m memory) put(t *tensor.Tensor, b []byte) error {
	if t.Buffer().Backing != nil {
		return tensor.Store(t, b)
	}
	m.device.Upload(t, b)
	return nil
}

// sync waits for pending device work.
func (m memory) sync() {
	if m.device != nil {
		m.device.Sync()
	}
}
