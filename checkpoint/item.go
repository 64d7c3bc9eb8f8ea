package checkpoint

import (
	"fmt"
	"math"
	"unicode/utf8"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// Param is the kind of parameters. Other kinds are the names of an optimizer's state: a kind is part
// of a tensor's name.
const Param = "param"

// Item is a part of the state that this rank holds: a box of the tensor of that kind and name. The
// same box may be held by several ranks, and boxes may overlap, as long as all hold the same
// values.
type Item struct {
	Kind string
	tensor.Shard
}

// key is the tensor's name in data files: a parameter's own, and kind/name for the rest.
func key(kind, name string) string {
	if kind == Param {
		return name
	}
	return kind + "/" + name
}

// check refuses an item that contradicts itself, or that m cannot reach.
func (it Item) check(m memory) error {
	switch k := key(it.Kind, it.Name); {
	case it.Kind == "" || it.Name == "" || !utf8.ValidString(k):
		return fmt.Errorf("checkpoint: a tensor without a name or a kind: %q", k)
	case safetensors.TypeOf(it.DType) == "":
		return fmt.Errorf("checkpoint: %s: files have no %v", k, it.DType)
	case !validShape(it.Shape, it.DType):
		return fmt.Errorf("checkpoint: %s has shape %v", k, it.Shape)
	case !it.Box.In(it.Shape):
		return fmt.Errorf("checkpoint: %s %v does not have the box %v + %v", k, it.Shape, it.Box.Offsets, it.Box.Sizes)
	case it.Box.Elems() > 0 && (it.Data == nil || it.Data.DType() != it.DType || it.Data.Elems() != it.Box.Elems() || !it.Data.Contiguous()):
		return fmt.Errorf("checkpoint: %s: %d elements of %v do not lie in %v", k, it.Box.Elems(), it.DType, it.Data)
	case it.Box.Elems() > 0 && it.Data.Buffer().Bytes == nil && it.Data.Buffer().Backing == nil && m.device == nil:
		return fmt.Errorf("checkpoint: %s: the host does not see its memory, and no device was given", k)
	}
	return nil
}

// maxDims bounds the dimensions of a tensor in a file, as PyTorch does.
const maxDims = 64

// validShape reports whether a tensor's size can be counted.
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

// memory moves between tensors and bytes. device is nil where the host sees every tensor.
type memory struct{ device tensor.Memory }

// bytes is elements [lo, hi) of t: its own memory where the host sees it, else a copy in
// buf, which is large enough.
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

// put writes all of t, whose memory the host does not see.
func (m memory) put(t *tensor.Tensor, b []byte) error {
	if t.Buffer().Backing != nil {
		return tensor.Store(t, b)
	}
	m.device.Upload(t, b)
	return nil
}

// sync waits for what a device still has to do.
func (m memory) sync() {
	if m.device != nil {
		m.device.Sync()
	}
}
