package gguf

import (
	"fmt"
	"hash/crc32"
	"math"
	"strings"
)

const (
	magic     = "GGUF"
	version   = 3
	alignment = 32 // of tensors' data, in bytes
	maxDims   = 4
)

// sumsKey is the key of an array of uint32, which llama.cpp ignores: the CRC-32C of the file up to the data, with zeros for this
// array, and that of the data of each tensor, without padding.
const sumsKey = "trireme.crc32c"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Type is the type of a tensor's elements, with ggml's numbers.
type Type uint32

const (
	F32  Type = 0
	F16  Type = 1
	Q8_0 Type = 8 // blocks of 32 elements: a scale in float16 and 32 int8
	BF16 Type = 30
)

// types has the size of a block in elements and bytes, and general.file_type of a file of it.
var types = map[Type]struct {
	name         string
	elems, bytes int
	fileType     uint32
}{
	F32: {"f32", 1, 4, 0}, F16: {"f16", 1, 2, 1}, Q8_0: {"q8_0", 32, 34, 7}, BF16: {"bf16", 1, 2, 32},
}

// Types lists the names that ParseType accepts.
func Types() []string { return []string{"f32", "f16", "bf16", "q8_0"} }

// ParseType parses a name: f32, float32, bf16, q8_0, ...
func ParseType(name string) (Type, error) {
	text := strings.ToLower(name)
	if long, ok := map[string]string{"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[text]; ok {
		text = long
	}
	for t, x := range types {
		if x.name == text {
			return t, nil
		}
	}
	return 0, fmt.Errorf("gguf: %q is not a type. known: %s", name, strings.Join(Types(), ", "))
}

func (t Type) String() string {
	if x, ok := types[t]; ok {
		return x.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Size returns the bytes of n elements; false if the type is unknown, n is not a multiple of its block, or the size
// overflows.
func (t Type) Size(n int64) (int64, bool) {
	x, ok := types[t]
	if !ok || n < 0 || n%int64(x.elems) != 0 || n/int64(x.elems) > math.MaxInt64/int64(x.bytes) {
		return 0, false
	}
	return n / int64(x.elems) * int64(x.bytes), true
}

// KV is an entry of the metadata. Value is a uint8, int8, uint16, int16, uint32, int32, uint64, int64, float32,
// float64, bool or string, or a slice of one of them.
type KV struct {
	Key   string
	Value any
}

// Info describes a tensor. Shape is in row-major order, the rows' length last; files have the reverse.
type Info struct {
	Name   string
	Type   Type
	Shape  []int
	offset int64 // of the data section
}

// Elems returns the number of elements.
func (i Info) Elems() int64 {
	n := int64(1)
	for _, d := range i.Shape {
		n *= int64(d)
	}
	return n
}

// Width returns the length of a row.
func (i Info) Width() int {
	if len(i.Shape) == 0 {
		return 1
	}
	return i.Shape[len(i.Shape)-1]
}

// The types of values.
const (
	kindU8 uint32 = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)

func align(n int64) int64 { return (n + alignment - 1) / alignment * alignment }
