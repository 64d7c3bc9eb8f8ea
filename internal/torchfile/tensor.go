package torchfile

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trireme/checkpoint/safetensors"
	"trireme/internal/pickle"
	"trireme/tensor"
)

// storageTypes are the element types of torch's storage classes; UntypedStorage has none.
var storageTypes = map[string]safetensors.Type{
	"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
	"LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8",
	"BoolStorage": "BOOL", "ComplexFloatStorage": "C64",
}

var dtypes = map[string]safetensors.Type{
	"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
	"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
	"uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
	"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
}

// DType returns the type of torch.NAME, as in a pickle's global; false for other globals.
func DType(g pickle.Global) (safetensors.Type, bool) {
	t, ok := dtypes[g.Name]
	return t, ok && g.Module == "torch"
}

// Tensor is a tensor of a file: a strided view of a storage.
type Tensor struct {
	Type   safetensors.Type
	Shape  tensor.Shape
	stride []int
	first  int // element of the storage
	from   *storage
}

// Elems returns the number of elements.
func (t *Tensor) Elems() int { return t.Shape.Elems() }

// Same reports whether two tensors are the same view of one storage, as tied weights are.
func (t *Tensor) Same(o *Tensor) bool {
	return t.from == o.from && t.first == o.first && t.Type == o.Type && t.Shape.Equal(o.Shape) && tensor.Shape(t.stride).Equal(o.stride)
}

func (t *Tensor) String() string { return fmt.Sprintf("%s%v", t.Type, t.Shape) }

// ReadRange reads elements [first, first+count), in row-major order, into dst, which has exactly
// their size.
func (t *Tensor) ReadRange(first, count int, dst []byte) error {
	size := t.Type.Size()
	if n := t.Elems(); first < 0 || count < 0 || first > n || count > n-first || len(dst) != count*size {
		return fmt.Errorf("torchfile: %s: elements [%d,%d) of %v do not fit a buffer of %d bytes", t.from.file.name, first, first+count, t, len(dst))
	}
	if err := t.from.check(); err != nil {
		return fmt.Errorf("torchfile: %s: %w", t.from.file.name, err)
	}
	run := t.run()
	if run < t.Elems() && run*size < smallRun {
		return t.gather(first, count, dst)
	}
	for done := 0; done < count; {
		at := first + done
		n := min(run-at%run, count-done)
		if err := t.readAt(dst[done*size:(done+n)*size], t.offset(at)); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// smallRun is the number of adjacent bytes below which a read per run is slow, as in a transposed
// matrix.
const smallRun = 4096

// gather is ReadRange for short runs: it reads the part of the storage that has all elements.
func (t *Tensor) gather(first, count int, dst []byte) error {
	if count == 0 {
		return nil
	}
	lo, hi := t.offset(first), t.offset(first)
	for i := first; i < first+count; i++ {
		at := t.offset(i)
		lo, hi = min(lo, at), max(hi, at)
	}
	size := t.Type.Size()
	b := make([]byte, (hi-lo+1)*size)
	if err := t.readAt(b, lo); err != nil {
		return err
	}
	for i := range count {
		at := t.offset(first+i) - lo
		copy(dst[i*size:(i+1)*size], b[at*size:])
	}
	return nil
}

// run is the number of elements at the end of each row that are adjacent in the storage.
func (t *Tensor) run() int {
	run := 1
	for d := len(t.Shape) - 1; d >= 0 && (t.stride[d] == run || t.Shape[d] == 1); d-- {
		run *= t.Shape[d]
	}
	return run
}

// offset is the element of the storage at index i.
func (t *Tensor) offset(i int) int {
	at := t.first
	for d := len(t.Shape) - 1; d >= 0; d-- {
		at += i % t.Shape[d] * t.stride[d]
		i /= t.Shape[d]
	}
	return at
}

func (t *Tensor) readAt(dst []byte, elem int) error {
	at := t.from.at + int64(elem)*int64(t.Type.Size())
	if n, err := t.from.file.r.ReadAt(dst, at); n < len(dst) {
		return fmt.Errorf("torchfile: %s: %s: %w", t.from.file.name, t.from.name, err)
	}
	return nil
}

// opaque are calls in trainers' states that are kept as their arguments: random states, paths, times.
var opaque = map[pickle.Global]bool{
	{Module: "torch", Name: "device"}: true, {Module: "torch.serialization", Name: "_get_layout"}: true,
	{Module: "numpy.core.multiarray", Name: "scalar"}: true, {Module: "numpy.core.multiarray", Name: "_reconstruct"}: true,
	{Module: "numpy._core.multiarray", Name: "scalar"}: true, {Module: "numpy._core.multiarray", Name: "_reconstruct"}: true,
	{Module: "numpy", Name: "dtype"}: true, {Module: "datetime", Name: "datetime"}: true, {Module: "datetime", Name: "timedelta"}: true,
	{Module: "pathlib", Name: "PosixPath"}: true, {Module: "pathlib", Name: "WindowsPath"}: true, {Module: "pathlib._local", Name: "PosixPath"}: true,
}

// rebuilder returns the meaning of the calls in data.pkl.
func rebuilder(allow func(pickle.Global) bool) func(pickle.Global, pickle.Tuple) (any, error) {
	var call func(f pickle.Global, args pickle.Tuple) (any, error)
	call = func(f pickle.Global, args pickle.Tuple) (any, error) {
		if v, ok := pickle.Simple(f, args); ok {
			return v, nil
		}
		switch f {
		case pickle.Global{Module: "torch._utils", Name: "_rebuild_tensor_v2"}:
			if len(args) == 6 || len(args) == 7 {
				return rebuild(args, "")
			}
		case pickle.Global{Module: "torch._utils", Name: "_rebuild_tensor_v3"}:
			if len(args) == 7 || len(args) == 8 {
				g, _ := args[6].(pickle.Global)
				if dt, ok := DType(g); ok {
					return rebuild(args, dt)
				}
				return nil, fmt.Errorf("a tensor of type %v, which is not supported", args[6])
			}
		case pickle.Global{Module: "torch._tensor", Name: "_rebuild_from_type_v2"}: // a tensor with attributes, which are left out
			if len(args) == 4 {
				g, _ := args[0].(pickle.Global)
				inner, ok := args[2].(pickle.Tuple)
				if ok && slices.Contains(withAttributes, g) && args[1] == any(pickle.Global{Module: "torch", Name: "Tensor"}) {
					return call(g, inner)
				}
			}
		case pickle.Global{Module: "torch._utils", Name: "_rebuild_parameter"}, pickle.Global{Module: "torch._utils", Name: "_rebuild_parameter_with_state"}:
			if len(args) >= 3 {
				if t, ok := args[0].(*Tensor); ok {
					return t, nil
				}
			}
		case pickle.Global{Module: "torch", Name: "Size"}:
			if len(args) == 1 {
				if t, ok := args[0].(pickle.Tuple); ok {
					return t, nil
				}
			}
		}
		if opaque[f] || allow != nil && allow(f) {
			return &pickle.Object{Class: f, Args: args}, nil
		}
		return nil, &pickle.Refused{Global: f}
	}
	return call
}

// withAttributes are the calls inside _rebuild_from_type_v2.
var withAttributes = []pickle.Global{{Module: "torch._utils", Name: "_rebuild_tensor_v2"}, {Module: "torch._utils", Name: "_rebuild_tensor_v3"}}

// rebuild makes a tensor of (storage, first, shape, stride, ...). as is its type if its storage has
// none.
func rebuild(args pickle.Tuple, as safetensors.Type) (*Tensor, error) {
	s, ok := args[0].(*storage)
	first, ok1 := args[1].(int64)
	shape, ok2 := pickle.Ints(args[2])
	stride, ok3 := pickle.Ints(args[3])
	if !ok || !ok1 || !ok2 || !ok3 || len(shape) != len(stride) || len(shape) > 64 {
		return nil, errors.New("a tensor without storage, shape and strides")
	}
	if as == "" {
		if as, ok = storageTypes[s.elem]; !ok {
			return nil, fmt.Errorf("a tensor in a %s, which is not supported", s.elem)
		}
	}
	t := &Tensor{Type: as, Shape: shape, stride: stride, first: int(first), from: s}
	have := s.size / int64(as.Size())
	// A tensor has no more elements than its storage: an expanded one would write more than was read.
	elems, last := int64(1), first
	for d, n := range shape {
		if n < 0 || stride[d] < 0 || n > 0 && elems > math.MaxInt64/int64(n) {
			return nil, fmt.Errorf("a tensor of shape %v and strides %v", shape, stride)
		}
		elems *= int64(n)
	}
	for d, n := range shape {
		if elems > 0 && n > 1 {
			if int64(stride[d]) > have || int64(n) > have || last > have {
				return nil, fmt.Errorf("a tensor of shape %v and strides %v is outside its storage of %d elements", shape, stride, have)
			}
			last += int64(n-1) * int64(stride[d])
		}
	}
	if first < 0 || elems > have || elems > 0 && last >= have {
		return nil, fmt.Errorf("a tensor of shape %v and strides %v is outside its storage of %d elements", shape, stride, have)
	}
	return t, nil
}
