package pjrt

import (
	"fmt"
	"math"
)

// Type is the type of an array's elements: a value of PJRT_Buffer_Type.
type Type int32

// types has the name in StableHLO and the size in bytes of the types that arrays in host memory have.
var types = map[Type]struct {
	name string
	size int
}{
	Pred: {"i1", 1},
	S8:   {"i8", 1}, S16: {"i16", 2}, S32: {"i32", 4}, S64: {"i64", 8},
	U8: {"ui8", 1}, U16: {"ui16", 2}, U32: {"ui32", 4}, U64: {"ui64", 8},
	F16: {"f16", 2}, F32: {"f32", 4}, F64: {"f64", 8}, BF16: {"bf16", 2},
	C64: {"complex<f32>", 8}, C128: {"complex<f64>", 16},
	F8E5M2: {"f8E5M2", 1}, F8E4M3FN: {"f8E4M3FN", 1},
}

// Size returns the bytes of an element, 0 for a type that Upload and Download do not have.
func (t Type) Size() int { return types[t].size }

// String returns the type's name in StableHLO.
func (t Type) String() string {
	if n := types[t].name; n != "" {
		return n
	}
	return fmt.Sprintf("type %d", int32(t))
}

// Param declares an argument of a program.
type Param struct {
	Type Type
	Dims []int
}

// String returns the type as StableHLO writes it: tensor<2x3xf32>.
func (p Param) String() string {
	s := "tensor<"
	for _, d := range p.Dims {
		s += fmt.Sprintf("%dx", d)
	}
	return s + p.Type.String() + ">"
}

// size returns the bytes of a dense array.
func (p Param) size() (int, error) {
	n := p.Type.Size()
	if n == 0 {
		return 0, fmt.Errorf("pjrt: arrays of %s are not supported", p.Type)
	}
	for _, d := range p.Dims {
		if d < 0 {
			return 0, fmt.Errorf("pjrt: %s: dimension %d is negative", p, d)
		}
		if d > 0 && n > math.MaxInt/d {
			return 0, fmt.Errorf("pjrt: %s: too large", p)
		}
		n *= d
	}
	return n, nil
}
