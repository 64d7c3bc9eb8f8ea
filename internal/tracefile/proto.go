package tracefile

import (
	"encoding/binary"
	"errors"
	"math"
)

// The wire types of protocol buffers.
const (
	wireVarint = 0
	wireFixed8 = 1 // 8 bytes
	wireBytes  = 2
	wireFixed4 = 5 // 4 bytes
)

func appendTag(b []byte, field, wire int) []byte {
	return binary.AppendUvarint(b, uint64(field)<<3|uint64(wire))
}

func appendUint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(appendTag(b, field, wireVarint), v)
}

func appendFixed64(b []byte, field int, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendTag(b, field, wireFixed8), v)
}

func appendString(b []byte, field int, s string) []byte {
	b = binary.AppendUvarint(appendTag(b, field, wireBytes), uint64(len(s)))
	return append(b, s...)
}

// appendMessage appends the message that f appends.
func appendMessage(b []byte, field int, f func(b []byte) []byte) []byte {
	return appendString(b, field, string(f(nil)))
}

var errWire = errors.New("not a valid message of protocol buffers")

// field is one field of a message. Numbers are in n, messages and strings in b.
type field struct {
	number, wire int
	n            uint64
	b            []byte
}

// nextField returns the first field of a message and the rest.
func nextField(b []byte) (f field, rest []byte, err error) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return f, nil, errWire
	}
	f.number, f.wire, b = int(tag>>3), int(tag&7), b[n:]
	switch f.wire {
	case wireVarint:
		if f.n, n = binary.Uvarint(b); n <= 0 {
			return f, nil, errWire
		}
	case wireFixed8:
		if n = 8; len(b) < n {
			return f, nil, errWire
		}
		f.n = binary.LittleEndian.Uint64(b)
	case wireFixed4:
		if n = 4; len(b) < n {
			return f, nil, errWire
		}
		f.n = uint64(binary.LittleEndian.Uint32(b))
	case wireBytes:
		size, m := binary.Uvarint(b)
		if m <= 0 || size > uint64(len(b)-m) {
			return f, nil, errWire
		}
		f.b, n = b[m:m+int(size)], m+int(size)
	default:
		return f, nil, errWire
	}
	return f, b[n:], nil
}

// eachField calls f for every field of a message.
func eachField(b []byte, f func(field) error) error {
	for len(b) > 0 {
		var v field
		var err error
		if v, b, err = nextField(b); err == nil {
			err = f(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
