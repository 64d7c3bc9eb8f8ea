package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"trireme/tensor"
)

// roller rolls a program.
type roller struct {
	p       *Program
	ids     []int      // per operation; equal for alike ones
	slots   [][]slot   // per operation, its operands
	streams [][]uint64 // per operation, tensor.RandKey.Stream of its attributes
	taken   []bool     // per operation, whether a loop has it

	first, last []int  // per buffer: the operations that use it first and last
	mixed       []bool // per buffer, whether views have several types; it is never sliced or stacked

	// Scratch of accept, per buffer.
	chainOf []*chain
	indexOf []int

	stackOf []*chain // per buffer; nil for none
	stackAt []int    // index in stackOf
}

// slot is a view of an operation. Barrier writes what it reads and thus only reads.
type slot struct {
	*View
	read, write bool
}

func newRoller(p *Program) *roller {
	n, m := len(p.Ops), len(p.Buffers)
	r := &roller{p: p, ids: make([]int, n), slots: make([][]slot, n), streams: make([][]uint64, n), taken: make([]bool, n),
		first: make([]int, m), last: make([]int, m), mixed: make([]bool, m), chainOf: make([]*chain, m), indexOf: make([]int, m), stackOf: make([]*chain, m), stackAt: make([]int, m)}
	for b := range m {
		r.first[b] = n
	}
	numbers := map[string]int{}
	var text []byte
	for i := range p.Ops {
		op := &p.Ops[i]
		text = text[:0]
		text, r.streams[i] = op.signature(text)
		if op.kind == upload || op.kind == result { // in order with the recording's
			text = binary.AppendVarint(text, int64(i))
		}
		number, ok := numbers[string(text)]
		if !ok {
			number = len(numbers)
			numbers[string(text)] = number
		}
		r.ids[i] = number
		for j := range op.Args {
			a := &op.Args[j]
			for k := range a.Views {
				v := &a.Views[k]
				r.slots[i] = append(r.slots[i], slot{v, a.Read, a.Write && op.Name != barrier})
				if v.Buffer >= 0 {
					r.first[v.Buffer], r.last[v.Buffer] = min(r.first[v.Buffer], i), i
					r.mixed[v.Buffer] = r.mixed[v.Buffer] || v.DType != p.Buffers[v.Buffer].DType
				}
			}
		}
	}
	return r
}

// signature appends all of an operation but buffers, offsets, tags and random streams. Alike
// operations have equal signatures.
func (op *Op) signature(text []byte) ([]byte, []uint64) {
	var streams []uint64
	str := func(s string) { text = append(binary.AppendUvarint(text, uint64(len(s))), s...) }
	num := func(n int) { text = binary.AppendVarint(text, int64(n)) }
	str(op.Name)
	str(op.Group)
	for i := range op.Args {
		a := &op.Args[i]
		if a.Name == tag {
			continue
		}
		str(a.Name)
		flags := 0
		if a.Read {
			flags = 1
		}
		if a.Write {
			flags += 2
		}
		num(flags)
		num(len(a.Views))
		for j := range a.Views {
			v := &a.Views[j]
			if v.Buffer < 0 {
				num(-1)
				continue
			}
			num(int(v.DType))
			num(len(v.Shape))
			for _, d := range v.Shape {
				num(d)
			}
			num(v.RowStride)
			str(v.Axis)
			num(v.Count)
			num(v.Elems)
		}
		if a.Attr != nil {
			text, streams = appendValue(text, reflect.ValueOf(a.Attr), streams)
		}
	}
	return text, streams
}

// identity appends all of an operation but tags and versions.
func (op *Op) identity(text []byte) []byte {
	text, streams := op.signature(append(text, byte(op.kind)))
	for _, n := range streams {
		text = binary.AppendUvarint(text, n)
	}
	op.each(func(_ *Arg, v *View) {
		for _, n := range []int{v.Buffer, v.Offset, v.base} {
			text = binary.AppendVarint(text, int64(n))
		}
	})
	return text
}

// tag is the parameter of collectives that names a unit.
const tag = "tag"

var randKeyType = reflect.TypeFor[tensor.RandKey]()

// appendValue appends an attribute without random streams, which it appends to streams.
func appendValue(text []byte, v reflect.Value, streams []uint64) ([]byte, []uint64) {
	if !v.IsValid() {
		return append(text, '?'), streams
	}
	name := v.Type().String()
	text = append(binary.AppendUvarint(text, uint64(len(name))), name...)
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(text, 1), streams
		}
		return append(text, 0), streams
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(text, v.Int()), streams
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(text, v.Uint()), streams
	case reflect.Float32, reflect.Float64:
		return binary.LittleEndian.AppendUint64(text, math.Float64bits(v.Float())), streams
	case reflect.String:
		return append(binary.AppendUvarint(text, uint64(v.Len())), v.String()...), streams
	case reflect.Slice, reflect.Array:
		text = binary.AppendUvarint(text, uint64(v.Len()))
		for i := range v.Len() {
			text, streams = appendValue(text, v.Index(i), streams)
		}
		return text, streams
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() == randKeyType && v.Type().Field(i).Name == "Stream" {
				streams = append(streams, v.Field(i).Uint())
				continue
			}
			text, streams = appendValue(text, v.Field(i), streams)
		}
		return text, streams
	case reflect.Interface:
		return appendValue(text, v.Elem(), streams)
	case reflect.Pointer:
		if v.IsNil() {
			return append(text, 0), streams
		}
	}
	panic(fmt.Sprintf("record: an attribute of type %v", v.Type()))
}

// withStreams is an attribute with f applied to its random streams.
func withStreams(attr any, f func(uint64) uint64) any {
	if attr == nil {
		return nil
	}
	out := reflect.New(reflect.TypeOf(attr)).Elem()
	out.Set(reflect.ValueOf(attr))
	replaceStreams(out, f)
	return out.Interface()
}

func replaceStreams(v reflect.Value, f func(uint64) uint64) {
	if v.Kind() != reflect.Struct {
		return
	}
	if v.Type() == randKeyType {
		stream := v.FieldByName("Stream")
		stream.SetUint(f(stream.Uint()))
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			replaceStreams(v.Field(i), f)
		}
	}
}
