package safetensors

import (
	"fmt"

	"trireme/tensor"
)

// Type is an element type as spelled in a header: F32, BF16, BOOL and so on. It includes types that
// tensor.DType lacks, so that files with masks or 8-bit weights can be opened.
type Type string

var sizes = map[Type]int{
	"F64": 8, "F32": 4, "F16": 2, "BF16": 2,
	"I64": 8, "I32": 4, "I16": 2, "I8": 1,
	"U64": 8, "U32": 4, "U16": 2, "U8": 1,
	"BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "C64": 8,
}

var types = map[tensor.DType]Type{
	tensor.F64: "F64", tensor.F32: "F32", tensor.F16: "F16", tensor.BF16: "BF16",
	tensor.I64: "I64", tensor.I32: "I32", tensor.U8: "U8",
}

// TypeOf returns the header's spelling of dt.
func TypeOf(dt tensor.DType) Type { return types[dt] }

// Size returns the bytes per element, 0 for an unknown type.
func (t Type) Size() int { return sizes[t] }

// DType returns the tensor type, or false if tensors lack it.
func (t Type) DType() (tensor.DType, bool) {
	for d, name := range types {
		if name == t {
			return d, true
		}
	}
	return 0, false
}

// Info describes a tensor of a file.
type Info struct {
	Name   string
	Type   Type
	Shape  tensor.Shape
	Offset int64 // from the start of the file, in bytes
	Size   int64 // in bytes
}

// Elems returns the number of elements.
func (i Info) Elems() int { return int(i.Size) / i.Type.Size() }

func (i Info) String() string { return fmt.Sprintf("%s %s%v", i.Name, i.Type, i.Shape) }
