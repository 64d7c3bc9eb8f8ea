// Package wire appends fields of protobuf messages. Messages of other programs are written by field number,
// without their generated code.
package wire

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bytes appends field n with a message or bytes.
func Bytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

// Text appends a string, which must be valid UTF-8.
func Text(b []byte, n protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
}

// Varint appends an integer, a bool or an enum.
func Varint(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// Fixed64 appends a fixed64 or sfixed64.
func Fixed64(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), v)
}

// Double appends a double.
func Double(b []byte, n protowire.Number, v float64) []byte {
	return Fixed64(b, n, math.Float64bits(v))
}

// Float appends a float.
func Float(b []byte, n protowire.Number, v float32) []byte {
	return protowire.AppendFixed32(protowire.AppendTag(b, n, protowire.Fixed32Type), math.Float32bits(v))
}

// Timestamp returns a google.protobuf.Timestamp.
func Timestamp(t time.Time) []byte {
	return Varint(Varint(nil, 1, uint64(t.Unix())), 2, uint64(t.Nanosecond()))
}
