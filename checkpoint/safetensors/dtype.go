package safetensors

import (
	"fmt"

	"trireme/tensor"
)

// Type is an element type as a header spells it: F32, BF16, BOOL and so on. There are more
// of them than tensor.DType has, so that files that hold a mask or an 8-bit weight beside
// the tensors that are wanted can be read.
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

// TypeOf is how a header spells dt.
func TypeOf(dt tensor.DType) Type { return types[dt] }

// Size is the number of bytes of one element, 0 for a type that is not known.
func (t Type) Size() int { return sizes[t] }

// DType is the element type of tensors, or false for one that tensors cannot have.
func (t Type) DType() (tensor.DType, bool) {
	for d, name := range types {
		if name == t {
			return d, true
		}
	}
	return 0, false
}

// Info says what a tensor of a file is and where it lies.
type Info struct {
	Name   string
	Type   Type
	Shape  tensor.Shape
	Offset int64 // of the first byte, from the start of the file
	Size   int64 // in bytes
}

// Elems is the number of elements.
func (i Info) Elems() int { return int(i.Size) / i.Type.Size() }

func (i Info) String() string { return fmt.Sprintf("%s %s%v", i.Name, i.Type, i.Shape) }
