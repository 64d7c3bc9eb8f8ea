package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// Tensor is a tensor to write. Read fills dst with elements first, first+1, ... in row-major order, whole rows at a
// time and in ascending order.
type Tensor struct {
	Info
	Read func(first int64, dst []float32) error
}

// chunkElems is the number of elements that are converted at once, if rows are not longer.
const chunkElems = 1 << 18

// Output is a file to write. WriteAt replaces bytes that were written.
type Output interface {
	io.Writer
	io.WriterAt
}

// Write writes a file: the metadata in order, then checksums (see sumsKey), then the tensors.
func Write(to Output, metadata []KV, tensors []Tensor) error {
	w := &writer{w: bufio.NewWriterSize(to, 1<<20)}
	w.raw([]byte(magic))
	w.fixed(uint32(version), uint64(len(tensors)), uint64(len(metadata)+1))
	sums := make([]uint32, 1+len(tensors))
	for _, kv := range append(slices.Clone(metadata), KV{sumsKey, sums}) {
		w.text(kv.Key)
		w.value(kv)
	}
	sumsAt := w.n - 4*int64(len(sums))
	at := int64(0)
	for _, t := range tensors {
		size, ok := t.Type.Size(t.Elems())
		if b := types[t.Type].elems; !ok || len(t.Shape) > maxDims || t.Width()%b != 0 {
			return fmt.Errorf("gguf: %s %v cannot be written as %v", t.Name, t.Shape, t.Type)
		}
		w.text(t.Name)
		w.fixed(uint32(len(t.Shape)))
		for i := len(t.Shape) - 1; i >= 0; i-- {
			w.fixed(uint64(t.Shape[i]))
		}
		w.fixed(uint32(t.Type), uint64(at))
		at += align(size)
	}
	w.pad()
	sums[0] = w.sum
	for i, t := range tensors {
		w.sum = 0
		if w.err == nil {
			w.err = w.data(t)
		}
		sums[1+i] = w.sum
		w.pad()
	}
	if w.err == nil {
		w.err = w.w.Flush()
	}
	if w.err != nil {
		return w.err
	}
	b, err := binary.Append(nil, binary.LittleEndian, sums)
	if err == nil {
		_, err = to.WriteAt(b, sumsAt)
	}
	return err
}

// writer counts bytes and keeps the first error.
type writer struct {
	w   *bufio.Writer
	n   int64
	sum uint32 // checksum of what was written
	err error
}

func (w *writer) raw(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
		w.n += int64(len(b))
		w.sum = crc32.Update(w.sum, castagnoli, b)
	}
}

func (w *writer) pad() { w.raw(make([]byte, align(w.n)-w.n)) }

// fixed writes numbers in little-endian order.
func (w *writer) fixed(values ...any) {
	for _, v := range values {
		b, err := binary.Append(nil, binary.LittleEndian, v)
		if err != nil && w.err == nil {
			w.err = fmt.Errorf("gguf: %w", err)
		}
		w.raw(b)
	}
}

func (w *writer) text(s string) {
	w.fixed(uint64(len(s)))
	w.raw([]byte(s))
}

// value writes the type and the value of an entry.
func (w *writer) value(kv KV) {
	switch v := kv.Value.(type) {
	case string:
		w.fixed(kindString)
		w.text(v)
	case []string:
		w.fixed(kindArray, kindString, uint64(len(v)))
		for _, s := range v {
			w.text(s)
		}
	default:
		kind, n := kindOf(v)
		switch {
		case kind == kindArray:
			w.err = fmt.Errorf("gguf: %s has a value of type %T", kv.Key, v)
		case n >= 0:
			w.fixed(kindArray, kind, uint64(n), v)
		default:
			w.fixed(kind, v)
		}
	}
}

// kindOf returns the type of a number or of the elements of a slice, and the length of the slice or -1. Other values
// are of kindArray.
func kindOf(v any) (kind uint32, n int) {
	switch v := v.(type) {
	case uint8:
		return kindU8, -1
	case int8:
		return kindI8, -1
	case uint16:
		return kindU16, -1
	case int16:
		return kindI16, -1
	case uint32:
		return kindU32, -1
	case int32:
		return kindI32, -1
	case float32:
		return kindF32, -1
	case bool:
		return kindBool, -1
	case uint64:
		return kindU64, -1
	case int64:
		return kindI64, -1
	case float64:
		return kindF64, -1
	case []uint8:
		return kindU8, len(v)
	case []int8:
		return kindI8, len(v)
	case []uint16:
		return kindU16, len(v)
	case []int16:
		return kindI16, len(v)
	case []uint32:
		return kindU32, len(v)
	case []int32:
		return kindI32, len(v)
	case []float32:
		return kindF32, len(v)
	case []bool:
		return kindBool, len(v)
	case []uint64:
		return kindU64, len(v)
	case []int64:
		return kindI64, len(v)
	case []float64:
		return kindF64, len(v)
	}
	return kindArray, -1
}

// data writes the elements of a tensor.
func (w *writer) data(t Tensor) error {
	width := max(1, t.Width())
	per := max(1, chunkElems/width) * width
	values, encoded := make([]float32, min(int64(per), t.Elems())), []byte(nil)
	for first := int64(0); first < t.Elems(); first += int64(per) {
		v := values[:min(int64(per), t.Elems()-first)]
		if err := t.Read(first, v); err != nil {
			return err
		}
		var ok bool
		if encoded, ok = encode(encoded[:0], v, t.Type); !ok {
			return fmt.Errorf("gguf: %s has values beyond %v, the largest in float16. try: bf16 or f32", t.Name, maxF16)
		}
		if w.raw(encoded); w.err != nil {
			return w.err
		}
	}
	return nil
}

const maxF16 = 65504

func isInf(x float32) bool { return math.IsInf(float64(x), 0) }
