package data

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// checkThrift walks a structure in Thrift's compact protocol, such as a Parquet footer, and rejects
// lengths beyond its bytes: the library allocates whatever a list's length says.
func checkThrift(b []byte) error {
	w := thriftWalker{b}
	if err := w.structure(0); err != nil {
		return fmt.Errorf("%w: its footer %w", errParquet, err)
	}
	return nil
}

type thriftWalker struct{ b []byte }

var errThrift = errors.New("is truncated or has invalid lengths")

// The types of compact Thrift.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

func (w *thriftWalker) structure(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("is %d structures deep", depth)
	}
	for {
		head, err := w.byte()
		if err != nil {
			return err
		}
		kind := head & 15
		if head == thriftStop {
			return nil
		}
		if head>>4 == 0 {
			if _, err := w.varint(); err != nil { // field id
				return err
			}
		}
		if kind == thriftTrue || kind == thriftFalse {
			continue
		}
		if err := w.value(kind, depth); err != nil {
			return err
		}
	}
}

func (w *thriftWalker) value(kind byte, depth int) error {
	switch {
	case kind <= thriftByte: // in lists, booleans are bytes
		return w.skip(1)
	case kind >= thriftI16 && kind <= thriftI64:
		_, err := w.varint()
		return err
	case kind == thriftDouble:
		return w.skip(8)
	case kind == thriftBinary:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case kind == thriftList || kind == thriftSet:
		head, err := w.byte()
		if err != nil {
			return err
		}
		n := uint64(head >> 4)
		if n == 15 {
			if n, err = w.varint(); err != nil {
				return err
			}
		}
		return w.elements(n, depth, head&15)
	case kind == thriftMap:
		n, err := w.varint()
		if err != nil || n == 0 {
			return err
		}
		kinds, err := w.byte()
		if err != nil {
			return err
		}
		return w.elements(n, depth, kinds>>4, kinds&15)
	case kind == thriftStruct:
		return w.structure(depth + 1)
	}
	return fmt.Errorf("has a value of type %d", kind)
}

// elements walks n times values of kinds. Each takes a byte or more.
func (w *thriftWalker) elements(n uint64, depth int, kinds ...byte) error {
	if n > uint64(len(w.b)) {
		return errThrift
	}
	for range n {
		for _, kind := range kinds {
			if err := w.value(kind, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *thriftWalker) byte() (byte, error) {
	if len(w.b) == 0 {
		return 0, errThrift
	}
	b := w.b[0]
	w.b = w.b[1:]
	return b, nil
}

func (w *thriftWalker) varint() (uint64, error) {
	v, n := binary.Uvarint(w.b)
	if n <= 0 {
		return 0, errThrift
	}
	w.b = w.b[n:]
	return v, nil
}

func (w *thriftWalker) skip(n uint64) error {
	if n > uint64(len(w.b)) {
		return errThrift
	}
	w.b = w.b[n:]
	return nil
}
